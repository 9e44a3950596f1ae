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
//
// Phases that are apart: the first slot of one opens when all that arrives at the rank in the phase
// before has committed. One that reduces after a phase that gathered begins another collective,
// which all ranks begin together: when that holds of all of them.
class StepGate {
 public:
  enum class Ranks : uint8_t { kApart, kTogether };
  enum class Phases : uint8_t { kOverlap, kApart };
  StepGate(const LoweredSchedule& schedule, const NopTimes& nops, Ranks ranks,
           Phases phases = Phases::kOverlap);

  // Ranks of one line open their slots together.
  int32_t line_count() const { return count_of(lines_); }
  int32_t line_of(int32_t rank) const { return are_together_ ? 0 : rank; }
  bool is_open(int32_t rank, int64_t slot) const { return slot <= lines_[at(line_of(rank))].open; }
  // A send of the rank's open slot is over.
  void over(int32_t rank) { --lines_[at(line_of(rank))].left; }
  bool are_phases_apart() const { return !phases_.end.empty(); }
  // An arrival of a step has committed at the rank. Returns whether slots of other lines may open
  // with it. Precondition: phases are apart.
  bool committed(int32_t rank, int32_t step, int32_t segment);
  // Opens the following slots as far as they go now. Called at the start, after over() and
  // committed(), and when a NOP is over (`after_nop`). Returns how long the NOP now open lasts, if
  // it is one.
  std::optional<int64_t> advance(int32_t line, bool after_nop);
  // The connections that the line's ranks send over, ascending.
  std::span<const int32_t> connections(int32_t line) const { return connections_[at(line)]; }

 private:
  struct Line {
    int64_t open = -1;
    int64_t left = 0;                   // sends of the open slot that are not over
    bool is_nop = false;                // the open slot
    std::vector<int32_t> awaited = {};  // by slot: commits before it opens; empty: none of any
  };
  void await_phases(const LoweredSchedule& schedule);
  bool is_awaited(const Line& line, int64_t slot) const {
    return are_phases_apart() &&
           (line.awaited[at(slot)] > 0 || phases_.awaited_of_all[at(slot)] > 0);
  }
  int64_t slot_count() const { return int64_t{segment_count_ - 1} * period_ + step_count_; }
  // The first slot of the next phase.
  int64_t slot_after(int32_t step, int32_t segment) const {
    return int64_t{segment} * period_ + phases_.end[at(step)];
  }
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
  struct {
    std::vector<int32_t> end;             // by step: the first of the next; empty: phases overlap
    std::vector<bool> ends_collective;    // by step: the next begins another one
    std::vector<int64_t> awaited_of_all;  // by slot: commits at all ranks before it opens
  } phases_;
  std::vector<int32_t> sends_;
  std::vector<Line> lines_;
  std::vector<std::vector<int32_t>> connections_;  // by line
};

}  // namespace pleach
