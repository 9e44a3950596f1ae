// FlitClock: cycles of the flit model and picoseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pleach/base/units.h"

namespace pleach {

// A cycle is one flit on the fastest link, whatever that is in picoseconds. Cycles that are added
// as picoseconds, each rounded either way, are still those cycles, where one lasts at least
// kShortestCyclePs.
class FlitClock {
 public:
  static constexpr int64_t kShortestCyclePs = 4;

  FlitClock(int64_t flit_bytes, int64_t bytes_per_s)
      : bytes_per_s_(bytes_per_s), scale_(Wide{flit_bytes} * kPicosecondsPerSecond) {}

  // When a cycle begins, rounded down.
  int64_t ps_of(int64_t cycle) const {
    return static_cast<int64_t>(std::min<Wide>(cycle * scale_ / bytes_per_s_, kNeverPs));
  }
  // The first cycle that begins at a time or later; a picosecond too early does not count.
  int64_t cycle_of(int64_t time_ps) const {
    const Wide bytes = Wide{std::max<int64_t>(0, time_ps - 1)} * bytes_per_s_;
    return static_cast<int64_t>((bytes + scale_ - 1) / scale_);
  }

 private:
  using Wide = __int128;
  static constexpr int64_t kNeverPs = INT64_MAX;

  int64_t bytes_per_s_;
  Wide scale_;  // of a flit [ps · B/s]
};

}  // namespace pleach
