// JobClock: time in which the waits of a job are measured; it stands still while this process does.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "pleach/runtime/clock.h"

namespace pleach {

// The steady clock, less the time in which this process was stopped (a job is suspended as a whole,
// and must not take itself for lost when it goes on). It runs only a little beyond its last beat:
// a thread that wakes up in time beats it. Thread safe; never beaten, it is the steady clock.
class JobClock final : public Clock {
 public:
  TimePoint now() const override {
    // What a beat writes first is read last: a new limit is seen with its new lag.
    const Ticks limit = limit_.load(std::memory_order_acquire);
    const Ticks lag = lag_.load(std::memory_order_relaxed);
    const Ticks ticks = base_.now().time_since_epoch().count() - lag;
    return TimePoint(Duration(std::min(ticks, limit)));
  }
  // Lets it run for as long as `reach` at most until the next beat. Called by one thread.
  void beat(Duration reach) {
    const Ticks real = base_.now().time_since_epoch().count();
    const Ticks shown = std::min(real - lag_.load(), limit_.load());
    lag_.store(real - shown, std::memory_order_relaxed);
    limit_.store(shown + reach.count(), std::memory_order_release);
  }
  // No beat follows: from here on it runs as the steady clock does. Called by the same thread.
  void run_free() {
    beat(Duration::zero());
    limit_.store(INT64_MAX, std::memory_order_release);
  }

 private:
  using Ticks = Duration::rep;
  SteadyClock base_;
  std::atomic<Ticks> lag_ = 0;
  std::atomic<Ticks> limit_ = INT64_MAX;
};

}  // namespace pleach
