// Epoch: a stretch of a job's life, which its first failure ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/net.h"

namespace pleach {

// What ended an epoch, as every rank is told it: the first failure wins.
struct Failure {
  Rank rank;            // the rank that failed or was lost; -1 when unknown
  std::string message;  // names rank, operation and cause
  // Never kTimeout, which would say that one may wait again: who does not come in time is lost.
  ErrorCode code = ErrorCode::kPeerLost;
};

// A failure that threads tell each other. Thread safe.
class SharedFailure {
 public:
  // The first one stays.
  void set(const Failure& failure) {
    const std::scoped_lock lock(mutex_);
    failure_ = failure_ ? failure_ : failure;
  }
  std::optional<Failure> get() const {
    const std::scoped_lock lock(mutex_);
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

// A rank that has left in order, and how far it took part: by channel, the last of its operations
// that had ended there, with all before it. A channel that is missing was not open on it.
struct Departure {
  Rank rank;
  std::map<uint64_t, uint64_t> ended = {};
};

// One rank's knowledge of it. Thread safe.
//
// A scope is a part of an epoch with failures of its own: the epoch's failure is also the scope's,
// but not the reverse.
//   source  docs/architecture.md, "Epochs", "Scopes", "Departures"
class Epoch {
 public:
  explicit Epoch(int64_t number, std::vector<Rank> members = {})
      : number_(number), members_(std::move(members)), failed_(make_event()) {}
  Epoch(std::shared_ptr<Epoch> whole, std::string scope)
      : number_(whole->number()),
        members_(whole->members()),
        whole_(std::move(whole)),
        scope_(std::move(scope)) {}
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  int64_t number() const { return number_; }
  // Empty: this is the whole epoch.
  const std::string& scope() const { return scope_; }
  // The job's ranks that take part in it, ascending; empty: all, it is the first.
  const std::vector<Rank>& members() const { return members_; }
  // The failure that has ended it, if any. Cost: one or two loads while there is none.
  std::optional<Failure> failure() const {
    if (has_failed_.load(std::memory_order_acquire)) {
      const std::scoped_lock lock(mutex_);
      return guarded_.failure;
    }
    return whole_ != nullptr ? whole_->failure() : std::nullopt;
  }
  // Errors: it has ended: what ended it. Cost: as failure().
  Status check() const {
    const std::optional<Failure> ended = failure();
    return ended ? Status(Error{ended->code, ended->message}) : ok();
  }
  // Becomes readable when failure() of the whole epoch is set, for an event loop.
  int descriptor() const { return whole_ != nullptr ? whole_->descriptor() : failed_.get(); }
  // The first one stays. Stores call it.
  void fail(const Failure& failure) {
    {
      const std::scoped_lock lock(mutex_);
      if (guarded_.failure) {
        return;
      }
      guarded_.failure = failure;
      has_failed_.store(true, std::memory_order_release);
      if (whole_ == nullptr) {
        signal_event(failed_.get());
      }
    }
    if (whole_ != nullptr) {
      whole_->tell_watchers();
    }
  }

  // A rank's first one counts. Stores call it.
  void note_departure(Departure departure) {
    {
      const std::scoped_lock lock(mutex_);
      if (!guarded_.departed.insert(departure.rank).second) {
        return;
      }
      guarded_.departures.push_back(std::move(departure));
    }
    tell_watchers();
  }
  // Those after the first `known`.
  std::vector<Departure> departures(std::size_t known) const {
    if (whole_ != nullptr) {
      return whole_->departures(known);
    }
    const std::scoped_lock lock(mutex_);
    return {guarded_.departures.begin() + static_cast<std::ptrdiff_t>(known),
            guarded_.departures.end()};
  }
  std::size_t departure_count() const {
    if (whole_ != nullptr) {
      return whole_->departure_count();
    }
    const std::scoped_lock lock(mutex_);
    return guarded_.departures.size();
  }
  // Changes with each departure and each failure of a scope.
  uint64_t news() const {
    return whole_ != nullptr ? whole_->news() : watching_.news.load(std::memory_order_acquire);
  }

  // Calls `wake` at each change of news(), until it is destroyed. It may take no lock.
  class Watch {
   public:
    Watch() = default;
    Watch(std::shared_ptr<const Epoch> epoch, std::function<void()> wake)
        : epoch_(std::move(epoch)),
          wake_(std::make_unique<std::function<void()>>(std::move(wake))) {
      const std::scoped_lock lock(epoch_->watching_.mutex);
      epoch_->watching_.watchers.push_back(wake_.get());
    }
    Watch(Watch&&) = default;
    Watch& operator=(Watch&& other) noexcept {
      std::swap(epoch_, other.epoch_);
      std::swap(wake_, other.wake_);
      return *this;
    }
    ~Watch() {
      if (wake_ != nullptr) {
        const std::scoped_lock lock(epoch_->watching_.mutex);
        std::erase(epoch_->watching_.watchers, wake_.get());
      }
    }

   private:
    std::shared_ptr<const Epoch> epoch_;
    std::unique_ptr<std::function<void()>> wake_;
  };

 private:
  void tell_watchers() {
    watching_.news.fetch_add(1, std::memory_order_acq_rel);
    const std::scoped_lock lock(watching_.mutex);
    for (const std::function<void()>* const wake : watching_.watchers) {
      (*wake)();
    }
  }

  const int64_t number_;
  const std::vector<Rank> members_;
  const std::shared_ptr<Epoch> whole_;  // of a scope
  const std::string scope_;
  const Descriptor failed_;  // an eventfd; the whole epoch's
  mutable std::mutex mutex_;
  struct Guarded {
    std::optional<Failure> failure = {};
    std::vector<Departure> departures = {};
    std::set<Rank> departed = {};  // of those
  } guarded_;                      // by the mutex
  std::atomic<bool> has_failed_ = false;
  struct Watching {
    std::atomic<uint64_t> news = 0;
    std::mutex mutex = {};
    std::vector<const std::function<void()>*> watchers = {};  // guarded by it
  };
  mutable Watching watching_;
};

}  // namespace pleach
