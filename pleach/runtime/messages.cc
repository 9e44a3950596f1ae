#include "pleach/runtime/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/progress.h"

namespace pleach {
namespace {

// States that are looked at for one that is free before another is made.
constexpr std::size_t kMostLooks = 16;

// The channel only reads what is sent, but requests of both kinds look alike.
std::span<std::byte> writable(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Status Messages::check(const Call& call) const {
  const std::string_view what = call.is_send ? "send" : "receive";
  const std::string peer = call.peer ? fmt::format("{}", call.peer->value) : "any";
  const auto refuse = [&](std::string_view why) {
    return invalid(fmt::format("rank {}: {} {} rank {}, tag {}, {} bytes: {}", setup_.rank.value,
                               what, call.is_send ? "to" : "from", peer, call.tag,
                               call.memory.size(), why));
  };
  if (call.peer && (call.peer->value < 0 || call.peer->value >= count_of(setup_.job_ranks))) {
    return refuse(
        fmt::format("the communicator has ranks 0 to {}", count_of(setup_.job_ranks) - 1));
  }
  if (call.tag < 0) {
    return refuse("tags are not negative");
  }
  if (call.memory.data() == nullptr && !call.memory.empty()) {
    return refuse("the buffer is null");
  }
  return ok();
}

std::shared_ptr<MessageState> Messages::take() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t looks = std::min(kMostLooks, states_.size()); looks > 0; --looks) {
    next_ = (next_ + 1) % states_.size();
    if (states_[next_].use_count() == 1) {
      return states_[next_];
    }
  }
  return states_.emplace_back(std::make_shared<MessageState>());
}

Result<std::shared_ptr<MessageState>> Messages::plan(const Call& call,
                                                     const MessageOptions& options) {
  PLEACH_TRY(setup_.check_alive());
  PLEACH_TRY(check(call));
  std::shared_ptr<MessageState> state = take();
  state->request = {.is_send = call.is_send,
                    .peer = call.peer ? setup_.job_ranks[call.peer->index()] : Rank(),
                    .tag = call.tag,
                    .memory = call.memory.data(),
                    .bytes = std::ssize(call.memory),
                    .deadline = options.deadline.value_or(setup_.deadline)};
  return state;
}

Result<Operation> Messages::start(const Call& call, const MessageOptions& options) {
  PLEACH_ASSIGN(state, plan(call, options));
  Progress& progress = *setup_.wiring->progress;
  PLEACH_TRY(progress.start(setup_.channel, state));
  return Operation(std::move(state), std::shared_ptr<Progress>(setup_.wiring, &progress));
}

Result<Received> Messages::run(const Call& call, const MessageOptions& options) {
  PLEACH_ASSIGN(state, plan(call, options));
  Progress& progress = *setup_.wiring->progress;
  PLEACH_TRY(progress.run(setup_.channel, state));
  return progress.received(*state);
}

Result<Operation> Messages::send(Rank target, int32_t tag, std::span<const std::byte> message,
                                 const MessageOptions& options) {
  return start({true, target, tag, writable(message)}, options);
}

Result<Operation> Messages::receive(Rank source, int32_t tag, std::span<std::byte> buffer,
                                    const MessageOptions& options) {
  return start({false, source, tag, buffer}, options);
}

Result<Operation> Messages::receive_any(int32_t tag, std::span<std::byte> buffer,
                                        const MessageOptions& options) {
  return start({false, std::nullopt, tag, buffer}, options);
}

Status Messages::blocking_send(Rank target, int32_t tag, std::span<const std::byte> message,
                               const MessageOptions& options) {
  const Result<Received> sent = run({true, target, tag, writable(message)}, options);
  return sent ? ok() : Status(sent.error());
}

Result<Received> Messages::blocking_receive(Rank source, int32_t tag, std::span<std::byte> buffer,
                                            const MessageOptions& options) {
  return run({false, source, tag, buffer}, options);
}

Result<Received> Messages::blocking_receive_any(int32_t tag, std::span<std::byte> buffer,
                                                const MessageOptions& options) {
  return run({false, std::nullopt, tag, buffer}, options);
}

}  // namespace pleach
