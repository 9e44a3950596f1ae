// Clock: the door through which time enters what runs operations.
#pragma once

#include <chrono>

namespace pleach {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Never beyond the end of time.
inline TimePoint after(TimePoint now, Duration duration) {
  return duration > TimePoint::max() - now ? TimePoint::max() : now + duration;
}

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

}  // namespace pleach
