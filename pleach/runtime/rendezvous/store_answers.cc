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

// The server has said what it may not.
Error broken(std::string what) {
  return {ErrorCode::kIo, std::move(what)};
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
                 one_line(reply->value.substr(0, kMaxStoreToldBytes))};
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

Status Answers::hear(StoreMessage message) {
  const std::scoped_lock lock(mutex_);
  PLEACH_TRY(take(std::move(message)));
  changed_.notify_all();
  return ok();
}

// With mutex_ held, as those that follow.
Status Answers::take(StoreMessage message) {
  switch (message.verb) {
    case StoreVerb::kDone:
    case StoreVerb::kTimedOut:
    case StoreVerb::kRefused:
      if (const auto reply = replies_.find(message.id); reply != replies_.end()) {
        reply->second = std::move(message);
      }
      return ok();
    case StoreVerb::kEpoch:
      return take_epoch(message);
    case StoreVerb::kFailure:
      return take_failure(message);
    case StoreVerb::kLeft:
      return take_departure(message);
    case StoreVerb::kOut:
      if (message.number != self_.value || message.value.empty()) {
        return broken(fmt::format("rank {} is out, to rank {}", message.number, self_.value));
      }
      over_ = message.value.substr(0, kMaxStoreToldBytes);
      epoch_->fail({self_, over_});
      return ok();
    case StoreVerb::kGoodbye:
      over_ = "the store has said goodbye";
      return ok();
    default:
      return broken(fmt::format("a message with verb {}", static_cast<int>(message.verb)));
  }
}

std::shared_ptr<const Epoch> Answers::scope(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(scopes_.by_name, [](const auto& entry) {
    return entry.second.epoch.expired() && !entry.second.failure;
  });
  Scope& scope = scopes_.by_name[name];
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

Status Answers::take_epoch(const StoreMessage& message) {
  if (message.number != epoch_->number() + 1) {
    return broken(fmt::format("epoch {} after epoch {}", message.number, epoch_->number()));
  }
  PLEACH_ASSIGN(members, read_ranks(message.value, rank_count_));
  if (std::ranges::find(members, self_) == members.end()) {
    return broken(fmt::format("epoch {} without rank {}", message.number, self_.value));
  }
  epoch_ = std::make_shared<Epoch>(message.number, std::move(members));
  scopes_ = {};
  return ok();
}

Status Answers::take_failure(const StoreMessage& message) {
  PLEACH_ASSIGN(failure, read_failure(message, rank_count_));
  if (message.value.size() > kMaxStoreToldBytes) {
    return broken(fmt::format("a failure of {} bytes, of at most {}", message.value.size(),
                              kMaxStoreToldBytes));
  }
  if (static_cast<int64_t>(message.id) != epoch_->number()) {
    return ok();
  }
  const std::string name(scope_of_failure(message));
  if (name.empty()) {
    epoch_->fail(failure);
    return ok();
  }
  scopes_.told_bytes += scope_failure_bytes(message);
  if (scopes_.told_bytes > rank_count_ * kMaxStoreScopesBytes) {
    return broken("failures of more scopes than ranks may tell");
  }
  Scope& scope = scopes_.by_name[name];
  scope.failure = scope.failure ? scope.failure : failure;
  if (const std::shared_ptr<Epoch> epoch = scope.epoch.lock()) {
    epoch->fail(*scope.failure);
  }
  return ok();
}

Status Answers::take_departure(const StoreMessage& message) {
  PLEACH_ASSIGN(departure, read_left(message, rank_count_));
  if (departure.rank == self_) {
    return broken(fmt::format("rank {} has left, to that rank", self_.value));
  }
  epoch_->note_departure(std::move(departure));
  return ok();
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
