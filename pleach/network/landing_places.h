// LandingPlaces: the credits of every connection of one job.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {

// A connection has `places` landing places. A segment takes one when it is admitted and gives it
// back when all its chunks have committed at all targets; the sender knows at once. A segment other
// than the connection's smallest uncommitted one is admitted only if afterwards a place is still
// free or is held by that smallest one (docs/architecture.md, "No deadlock with bounded buffers").
class LandingPlaces {
 public:
  // places > 0.
  LandingPlaces(const LoweredJob& plan, int32_t period, int32_t segment_count, int32_t places);

  bool admits(int32_t connection, int32_t stream, int32_t segment) const;
  void admit(int32_t connection, int32_t stream, int32_t segment);
  // One chunk of the segment has committed at one target; true when it was the last and the place
  // is free again.
  bool commit(int32_t connection, int32_t stream, int32_t segment, int32_t instance);

 private:
  enum class State : uint8_t { kWaiting, kAdmitted, kCommitted };
  struct Window {
    int32_t held = 0;
    int32_t smallest = 0;       // position of the smallest uncommitted segment
    std::vector<State> states;  // by position
  };
  std::size_t item(int32_t stream, int32_t segment) const {
    return at(stream) * at(segment_count_) + at(segment);
  }

  const LoweredJob& plan_;
  int32_t segment_count_;
  int32_t places_;
  std::vector<int32_t> position_;  // by item: its place in its connection's order
  std::vector<int32_t> left_;      // by item and instance: commits to come
  std::vector<Window> windows_;    // by connection
};

}  // namespace pleach
