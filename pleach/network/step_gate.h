// LockstepGate: opens a rank's steps one after the other, as MultiTree's network interface does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/lowered_schedule.h"

namespace pleach {

// Slot k of a rank (segment · period + step) holds all its sends of that key. The next slot opens
// when the last byte of all of them has left; a slot without a send (NOP) is held open for the
// estimate of one segment's transmission. No messages are exchanged. The published interface waits
// twice the estimate in the first NOP after an active step, because there a step ends when its
// bytes are in the interface's buffers; here it ends when they have left. Source: MultiTree (ISCA
// 2021), section IV, schedule tables and NOPs.
class LockstepGate {
 public:
  LockstepGate(const LoweredJob& plan, int32_t period, int32_t segment_count, int64_t estimate_ps);

  bool is_open(int32_t rank, int64_t slot) const { return slot <= ranks_[at(rank)].open; }
  // A send of the rank's open slot has been transmitted.
  void sent(int32_t rank) { --ranks_[at(rank)].left; }
  // Opens the following slots as far as they go now. Called at the start, after sent(), and when a
  // NOP is over (`after_wait`). Returns how long the NOP now open lasts, if it is one.
  std::optional<int64_t> advance(int32_t rank, bool after_wait);

 private:
  struct RankState {
    int64_t open = -1;
    int64_t left = 0;    // sends of the open slot still to be transmitted
    bool waits = false;  // in a NOP
  };
  int64_t sends(int32_t rank, int64_t slot) const;

  int32_t period_;
  int32_t segment_count_;
  int32_t step_count_;
  int64_t estimate_ps_;
  bool all_alike_;              // every rank has the sends of sends_[0]
  std::vector<int32_t> sends_;  // by rank and step: sends of one segment
  std::vector<RankState> ranks_;
};

}  // namespace pleach
