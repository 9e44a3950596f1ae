// Answers: what the server of a TCP store has said to one rank.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/rendezvous/epoch.h"
#include "pleach/runtime/rendezvous/store_protocol.h"

namespace pleach {

// How a call fails whose caller ends it (base/interruption.h).
Error interrupted();

// When a wait for an answer ends without one.
struct Until {
  std::shared_ptr<const Epoch> epoch = {};     // it fails; none: the request is for the next one
  std::optional<std::size_t> departures = {};  // more ranks than these have left it
};

// Replies to requests, epochs and their failures, goodbye. Thread safe.
class Answers {
 public:
  Answers(const Clock& clock, Rank self, int32_t rank_count)
      : clock_(clock), self_(self), rank_count_(rank_count) {}

  // Announces a request; returns its number.
  uint64_t expect() {
    const std::scoped_lock lock(mutex_);
    replies_[++last_id_] = std::nullopt;
    return last_id_;
  }
  // The reply to a request, or why there is none: nothing more will be said, or the wait has ended.
  Result<StoreMessage> wait_for(const StoreMessage& request, bool is_sent, Duration wait,
                                const Until& until);
  void wait_for_end(Duration wait);
  // Until the server says which failure was first, or nothing more.
  void wait_for_failure(const Epoch& epoch, Duration wait);
  // Errors: kIo: the server may not say that; the message is what it has said.
  Status hear(StoreMessage message);
  // Nothing more will be said, or can be asked: a failure, unless it was announced.
  void end(const Failure& failure);
  // The first one stays.
  void fail(const Epoch& epoch, const Failure& failure) {
    const std::scoped_lock lock(mutex_);
    if (epoch_.get() == &epoch) {
      epoch_->fail(failure);
    } else if (const auto scope = find_scope(epoch.scope()); scope.get() == &epoch) {
      scope->fail(failure);
    }
    changed_.notify_all();
  }
  std::shared_ptr<const Epoch> epoch() const {
    const std::scoped_lock lock(mutex_);
    return epoch_;
  }
  std::shared_ptr<const Epoch> scope(const std::string& name);

 private:
  std::shared_ptr<Epoch> find_scope(const std::string& name) const {
    const auto found = scopes_.by_name.find(name);
    return found == scopes_.by_name.end() ? nullptr : found->second.epoch.lock();
  }
  Status take(StoreMessage message);
  Status take_epoch(const StoreMessage& message);
  Status take_failure(const StoreMessage& message);
  Status take_departure(const StoreMessage& message);

  const Clock& clock_;
  const Rank self_;
  const int32_t rank_count_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<uint64_t, std::optional<StoreMessage>> replies_;  // by request; empty: not yet
  uint64_t last_id_ = 0;
  std::shared_ptr<Epoch> epoch_ = std::make_shared<Epoch>(0);
  struct Scope {
    std::weak_ptr<Epoch> epoch;
    std::optional<Failure> failure;  // told before this rank asked for it
  };
  struct Scopes {
    std::map<std::string, Scope> by_name = {};
    int64_t told_bytes = 0;  // of their failures
  } scopes_;                 // of the present epoch
  std::string over_;         // why nothing more will be said; empty: it may be
};

}  // namespace pleach
