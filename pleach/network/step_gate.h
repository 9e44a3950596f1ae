// StepGate: opens steps one after the other, each rank's as MultiTree's network interface does, or
// those of all ranks together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/network/lowered_schedule.h"

namespace pleach {

// How long a slot without a send (NOP) is held open: the first of a row of them, and the others; 0:
// not at all. The model's to say, as is when a send is over.
struct NopTimes {
  int64_t first_ps = 0;
  int64_t later_ps = 0;
};

// Slot k of a rank (segment · period + step) holds all its sends of that key. The next slot opens
// when all of them are over; a NOP is held open for its time. No messages are exchanged. Source:
// MultiTree (ISCA 2021), section IV, schedule tables and NOPs: there a send is over when its bytes
// are in the interface's buffers, and the first NOP lasts two estimates of a step.
//
// Together, the slots of all ranks are one: a barrier that costs nothing, to show what ranks lose
// that know no step but their own.
class StepGate {
 public:
  enum class Ranks : uint8_t { kApart, kTogether };
  StepGate(const LoweredSchedule& schedule, const NopTimes& nops, Ranks ranks);

  // Ranks of one line open their slots together.
  int32_t line_count() const { return count_of(lines_); }
  int32_t line_of(int32_t rank) const { return are_together_ ? 0 : rank; }
  bool is_open(int32_t rank, int64_t slot) const { return slot <= lines_[at(line_of(rank))].open; }
  // A send of the rank's open slot is over.
  void over(int32_t rank) { --lines_[at(line_of(rank))].left; }
  // Opens the following slots as far as they go now. Called at the start, after over(), and when a
  // NOP is over (`after_nop`). Returns how long the NOP now open lasts, if it is one.
  std::optional<int64_t> advance(int32_t line, bool after_nop);
  // The connections that the line's ranks send over, ascending.
  std::span<const int32_t> connections(int32_t line) const { return connections_[at(line)]; }

 private:
  struct Line {
    int64_t open = -1;
    int64_t left = 0;     // sends of the open slot that are not over
    bool is_nop = false;  // the open slot
  };
  // The sends of one segment, of lines that are alike by step alone.
  int32_t& sends_of(int32_t line, int64_t step) {
    return sends_[at(all_alike_ ? 0 : line) * at(step_count_) + at(step)];
  }
  int64_t sends(int32_t line, int64_t slot);

  const int32_t period_;
  const int32_t segment_count_;
  const int32_t step_count_;
  const NopTimes nops_;
  const bool are_together_;
  const bool all_alike_;
  std::vector<int32_t> sends_;
  std::vector<Line> lines_;
  std::vector<std::vector<int32_t>> connections_;  // by line
};

}  // namespace pleach
