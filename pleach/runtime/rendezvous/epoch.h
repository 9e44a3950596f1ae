// Epoch: a stretch of a job's life, which its first failure ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
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

// One rank's knowledge of it. Thread safe.
//   source  docs/architecture.md, "Epochs"
class Epoch {
 public:
  explicit Epoch(int64_t number, std::vector<Rank> members = {})
      : number_(number), members_(std::move(members)), failed_(make_event()) {}
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  int64_t number() const { return number_; }
  // The job's ranks that take part in it, ascending; empty: all, it is the first.
  const std::vector<Rank>& members() const { return members_; }
  // What has ended it, if anything has. Cost: a load while nothing has.
  std::optional<Failure> failure() const {
    if (!has_failed_.load(std::memory_order_acquire)) {
      return std::nullopt;
    }
    const std::scoped_lock lock(mutex_);
    return failure_;
  }
  // Errors: it has ended: what ended it. Cost: as failure().
  Status check() const {
    const std::optional<Failure> ended = failure();
    return ended ? Status(Error{ended->code, ended->message}) : ok();
  }
  // Becomes readable when failure() is set, for an event loop.
  int descriptor() const { return failed_.get(); }
  // The first one stays. Stores call it.
  void fail(const Failure& failure) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) {
      failure_ = failure;
      has_failed_.store(true, std::memory_order_release);
      signal_event(failed_.get());
    }
  }

 private:
  const int64_t number_;
  const std::vector<Rank> members_;
  const Descriptor failed_;  // an eventfd
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
  std::atomic<bool> has_failed_ = false;
};

}  // namespace pleach
