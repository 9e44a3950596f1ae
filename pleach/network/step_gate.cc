#include "pleach/network/step_gate.h"

#include <algorithm>

namespace pleach {

StepGate::StepGate(const LoweredSchedule& schedule, const NopTimes& nops, Ranks ranks,
                   Phases phases)
    : period_(schedule.schedule().period),
      segment_count_(schedule.segment_count()),
      step_count_(schedule.schedule().step_count()),
      nops_(nops),
      are_together_(ranks == Ranks::kTogether),
      all_alike_(are_together_ || schedule.ranks_are_alike()),
      lines_(at(are_together_ ? 1 : schedule.rank_count())),
      connections_(lines_.size()) {
  sends_.resize((all_alike_ ? 1 : lines_.size()) * at(step_count_));
  const Order& order = schedule.order();
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    for (const int32_t source : order.sources(stream)) {
      const int32_t step = order.stream(stream).step;
      sends_of(line_of(source), step) += are_together_ ? schedule.translate_count() : 1;
      for (int32_t translate = 0; translate < schedule.translate_count(); ++translate) {
        connections_[at(line_of(schedule.rank_of(source, translate)))].push_back(
            schedule.connection_of(schedule.send(stream, 0, translate)));
      }
    }
  }
  for (std::vector<int32_t>& list : connections_) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  if (phases == Phases::kApart) {
    await_phases(schedule);
  }
}

void StepGate::await_phases(const LoweredSchedule& schedule) {
  const Order& order = schedule.order();
  std::vector<int32_t> phase_of;  // by step
  int32_t phase_count = 0;
  for (const int32_t steps : schedule.schedule().phase_steps) {
    phases_.end.resize(phases_.end.size() + at(steps), count_of(phases_.end) + steps);
    phase_of.resize(phases_.end.size(), phase_count++);
  }
  std::vector<bool> reduces(at(phase_count) + 1);
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    if (order.stream(stream).op == TransferOp::kReduce) {
      reduces[at(phase_of[at(order.stream(stream).step)])] = true;
    }
  }
  for (const int32_t phase : phase_of) {
    phases_.ends_collective.push_back(!reduces[at(phase)] && reduces[at(phase) + 1]);
  }
  phases_.awaited_of_all.resize(at(slot_count()) + 1);
  for (Line& line : lines_) {
    line.awaited.resize(at(slot_count()) + 1);
  }
  for (int32_t index = 0; index < order.commit_count(); ++index) {
    const Commit& commit = order.commit(index);
    const int32_t step = order.stream(commit.stream).step;
    for (int32_t segment = 0; segment < segment_count_; ++segment) {
      const std::size_t slot = at(slot_after(step, segment));
      phases_.awaited_of_all[slot] +=
          phases_.ends_collective[at(step)] ? schedule.translate_count() : 0;
      for (int32_t translate = 0; translate < schedule.translate_count(); ++translate) {
        const int32_t rank = schedule.rank_of(order.slot(commit.slot).rank, translate);
        ++lines_[at(line_of(rank))].awaited[slot];
      }
    }
  }
}

bool StepGate::committed(int32_t rank, int32_t step, int32_t segment) {
  const std::size_t slot = at(slot_after(step, segment));
  --lines_[at(line_of(rank))].awaited[slot];
  return phases_.ends_collective[at(step)] && --phases_.awaited_of_all[slot] == 0;
}

int64_t StepGate::sends(int32_t line, int64_t slot) {
  int64_t sum = 0;
  const int64_t first = std::max<int64_t>(0, (slot - step_count_) / period_);
  const int64_t last = std::min<int64_t>(segment_count_ - 1, slot / period_);
  for (int64_t segment = first; segment <= last; ++segment) {
    const int64_t step = slot - segment * period_;
    if (step < step_count_) {
      sum += sends_of(line, step);
    }
  }
  return sum;
}

std::optional<int64_t> StepGate::advance(int32_t line, bool after_nop) {
  Line& state = lines_[at(line)];
  if (state.left > 0 || (state.is_nop && !after_nop)) {
    return std::nullopt;
  }
  const int64_t slots = slot_count();
  if (state.open + 1 >= slots) {
    return std::nullopt;
  }
  while (true) {
    if (is_awaited(state, state.open + 1)) {
      state.is_nop = false;  // what was held open is over
      return std::nullopt;
    }
    const int64_t nop_ps = state.is_nop ? nops_.later_ps : nops_.first_ps;
    ++state.open;
    state.left = sends(line, state.open);
    state.is_nop = state.left == 0;
    if (!state.is_nop) {
      return std::nullopt;
    }
    if (nop_ps > 0 || state.open + 1 == slots) {
      return nop_ps;
    }
  }
}

}  // namespace pleach
