#include "pleach/runtime/rendezvous/store_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "pleach/base/interruption.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

// A call that is interrupted waits so long for what others are to know of it.
constexpr Duration kFarewell = std::chrono::milliseconds(100);

// Asks without the lock: the answer may take long, and may call the store.
bool is_told_to_end(std::unique_lock<std::mutex>& lock) {
  if (Interruption::present() == nullptr) {
    return false;
  }
  lock.unlock();
  const bool is_over = is_interrupted();
  lock.lock();
  return is_over;
}

// Waits until `is_over`, `wait` has passed, or the caller is interrupted and the farewell over.
// Returns is_over().
template <typename IsOver>
bool wait_interruptibly(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                        Duration wait, const IsOver& is_over) {
  if (Interruption::present() == nullptr) {
    return changed.wait_for(lock, wait, is_over);
  }
  const auto start = SteadyClock().now();
  while (!is_over()) {
    const Duration whole = is_told_to_end(lock) ? std::min(wait, kFarewell) : wait;
    const Duration spent = SteadyClock().now() - start;
    if (is_over() || spent >= whole) {
      break;
    }
    changed.wait_for(lock, std::min<Duration>(whole - spent, kInterruptionInterval));
  }
  return is_over();
}

}  // namespace

Error interrupted() {
  return {ErrorCode::kPeerLost, "its call was interrupted"};
}

void Answers::wait_for_end(Duration wait) {
  std::unique_lock lock(mutex_);
  wait_interruptibly(changed_, lock, wait, [this] { return !over_.empty(); });
}

void Answers::wait_for_failure(const Epoch& epoch, Duration wait) {
  std::unique_lock lock(mutex_);
  wait_interruptibly(changed_, lock, wait, [&] { return epoch.failure() || !over_.empty(); });
}

Result<StoreMessage> Answers::wait_for(const StoreMessage& request, bool is_sent, Duration wait,
                                       const Until& until) {
  std::unique_lock lock(mutex_);
  const Epoch* const epoch = until.epoch.get();
  const auto has_news = [&] {
    return epoch != nullptr && until.departures && epoch->departure_count() > *until.departures;
  };
  const auto has_failed = [&] { return epoch != nullptr && epoch->failure(); };
  const auto is_decided = [&] {
    return replies_[request.id].has_value() || has_failed() || !over_.empty() || has_news();
  };
  const TimePoint start = clock_.now();
  bool in_time = is_sent && is_decided();
  // The time that passes here is the job's, so that it may take several waits.
  const bool may_end = Interruption::present() != nullptr;
  for (Duration left = wait; is_sent && !in_time && left > Duration::zero();
       left = wait - (clock_.now() - start)) {
    const Duration slice = may_end ? std::min<Duration>(left, kInterruptionInterval) : left;
    in_time = changed_.wait_for(lock, slice, is_decided);
    if (!in_time && is_told_to_end(lock)) {
      break;
    }
  }
  std::optional<StoreMessage> reply = std::move(replies_[request.id]);
  replies_.erase(request.id);
  if (reply && reply->verb == StoreVerb::kDone) {
    return *std::move(reply);
  }
  if (has_failed()) {
    return epoch->check().error();
  }
  if (is_sent && !in_time && may_end && Interruption::present()->has_ended()) {
    return interrupted();
  }
  if (reply && !reply->value.empty()) {
    const bool is_late = reply->verb == StoreVerb::kTimedOut;
    return Error{is_late ? ErrorCode::kTimeout : ErrorCode::kInvalidArgument,
                 one_line(reply->value)};
  }
  if (epoch == nullptr && !over_.empty()) {
    return Error{ErrorCode::kPeerLost, over_};
  }
  const std::string what = epoch == nullptr ? "the next epoch" : pleach::quoted(request.key);
  if (!over_.empty() || !is_sent) {
    return Error{ErrorCode::kIo, fmt::format("the store has closed, {} is lost", what)};
  }
  return Error{ErrorCode::kTimeout, in_time
                                        ? fmt::format("nobody has set {}", what)
                                        : fmt::format("the store does not answer for {}", what)};
}

bool Answers::hear(StoreMessage message) {
  const std::scoped_lock lock(mutex_);
  switch (message.verb) {
    case StoreVerb::kDone:
    case StoreVerb::kTimedOut:
    case StoreVerb::kRefused:
      if (const auto reply = replies_.find(message.id); reply != replies_.end()) {
        reply->second = std::move(message);
      }
      break;
    case StoreVerb::kEpoch: {
      Result<std::vector<Rank>> members = read_ranks(message.value);
      if (!members) {
        return false;
      }
      epoch_ = std::make_shared<Epoch>(message.number, std::move(members).value());
      scopes_.clear();
      break;
    }
    case StoreVerb::kFailure:
      if (static_cast<int64_t>(message.id) == epoch_->number()) {
        hear_failure(message);
      }
      break;
    case StoreVerb::kLeft:
      hear_departure(Rank{static_cast<int32_t>(message.number)}, message.value);
      break;
    case StoreVerb::kOut:
      epoch_->fail({Rank{static_cast<int32_t>(message.number)}, message.value});
      over_ = std::move(message.value);
      break;
    case StoreVerb::kGoodbye:
      over_ = "the store has said goodbye";
      break;
    default:
      return false;
  }
  changed_.notify_all();
  return true;
}

std::shared_ptr<const Epoch> Answers::scope(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(scopes_, [](const auto& entry) {
    return entry.second.epoch.expired() && !entry.second.failure;
  });
  Scope& scope = scopes_[name];
  std::shared_ptr<Epoch> epoch = scope.epoch.lock();
  if (epoch == nullptr) {
    epoch = std::make_shared<Epoch>(epoch_, name);
    scope.epoch = epoch;
  }
  if (scope.failure) {
    epoch->fail(*scope.failure);
  }
  return epoch;
}

// With mutex_ held.
void Answers::hear_failure(const StoreMessage& message) {
  const std::string name(scope_of_failure(message));
  if (name.empty()) {
    return epoch_->fail(read_failure(message));
  }
  Scope& scope = scopes_[name];
  scope.failure = scope.failure ? scope.failure : read_failure(message);
  if (const std::shared_ptr<Epoch> epoch = scope.epoch.lock()) {
    epoch->fail(*scope.failure);
  }
}

// With mutex_ held.
void Answers::hear_departure(Rank rank, std::string_view text) {
  if (Result<Departure> departure = read_departure(rank, text)) {
    epoch_->note_departure(std::move(departure).value());
  }
}

void Answers::end(const Failure& failure) {
  const std::scoped_lock lock(mutex_);
  if (over_.empty()) {
    epoch_->fail(failure);
    over_ = failure.message + ", and the store with it";
  }
  changed_.notify_all();
}

}  // namespace pleach
