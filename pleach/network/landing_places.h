// LandingPlaces: the credits of every connection of one job.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/network/lowered_schedule.h"

namespace pleach {

// A connection has `places` landing places. A send takes one when it is admitted and gives it back
// when all its chunks have committed at all targets; the sender knows at once. A send other than
// the connection's smallest uncommitted one is admitted only if afterwards a place is still free or
// is held by that smallest one (docs/architecture.md, "No deadlock with bounded buffers").
class LandingPlaces {
 public:
  // Borrows the schedule. places > 0.
  LandingPlaces(const LoweredSchedule& schedule, int32_t places);

  bool admits(const Send& send) const;
  void admit(const Send& send);
  // Whether the arrival was its send's last and the place is free again.
  bool commit(const Arrival& arrival);

 private:
  enum class State : uint8_t { kWaiting, kAdmitted, kCommitted };
  struct Window {
    int32_t held = 0;
    int32_t smallest = 0;       // position of the smallest uncommitted send
    std::vector<State> states;  // by position
  };
  std::size_t item(int32_t stream, int32_t segment) const {
    return at(stream) * at(schedule_.segment_count()) + at(segment);
  }

  const LoweredSchedule& schedule_;
  const int32_t places_;
  std::vector<int32_t> position_;  // by item: its place in its connection's order
  std::vector<int32_t> left_;      // by item and translate: commits to come
  std::vector<Window> windows_;    // by connection
};

}  // namespace pleach
