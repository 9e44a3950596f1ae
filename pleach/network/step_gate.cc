#include "pleach/network/step_gate.h"

#include <algorithm>

namespace pleach {

StepGate::StepGate(const LoweredSchedule& schedule, const NopTimes& nops, Ranks ranks)
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
  const int64_t slot_count = int64_t{segment_count_ - 1} * period_ + step_count_;
  if (state.open + 1 >= slot_count) {
    return std::nullopt;
  }
  while (true) {
    const int64_t nop_ps = state.is_nop ? nops_.later_ps : nops_.first_ps;
    ++state.open;
    state.left = sends(line, state.open);
    state.is_nop = state.left == 0;
    if (!state.is_nop) {
      return std::nullopt;
    }
    if (nop_ps > 0 || state.open + 1 == slot_count) {
      return nop_ps;
    }
  }
}

}  // namespace pleach
