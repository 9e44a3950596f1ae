#include "pleach/network/flow/lockstep.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {

LockstepGate::LockstepGate(const LoweredJob& plan, int32_t period, int32_t segment_count,
                           int64_t estimate_ps)
    : period_(period),
      segment_count_(segment_count),
      step_count_(plan.schedule().step_count()),
      estimate_ps_(estimate_ps),
      all_alike_(plan.instances() != Instances::kNone),
      sends_(at(all_alike_ ? 1 : plan.rank_count()) * at(step_count_)),
      ranks_(at(plan.rank_count())) {
  const Order& order = plan.order();
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    for (const int32_t rank : order.sources(stream)) {
      ++sends_[at(all_alike_ ? 0 : rank) * at(step_count_) + at(order.stream(stream).step)];
    }
  }
}

int64_t LockstepGate::sends(int32_t rank, int64_t slot) const {
  int64_t sum = 0;
  const int64_t first = std::max<int64_t>(0, (slot - step_count_) / period_);
  const int64_t last = std::min<int64_t>(segment_count_ - 1, slot / period_);
  for (int64_t segment = first; segment <= last; ++segment) {
    const int64_t step = slot - segment * period_;
    if (step < step_count_) {
      sum += sends_[at(all_alike_ ? 0 : rank) * at(step_count_) + at(step)];
    }
  }
  return sum;
}

std::optional<int64_t> LockstepGate::advance(int32_t rank, bool after_wait) {
  RankState& state = ranks_[at(rank)];
  if (state.left > 0 || (state.waits && !after_wait)) {
    return std::nullopt;
  }
  const int64_t slot_count = int64_t{segment_count_ - 1} * period_ + step_count_;
  if (state.open + 1 >= slot_count) {
    return std::nullopt;
  }
  ++state.open;
  state.left = sends(rank, state.open);
  state.waits = state.left == 0;
  return state.waits ? std::optional(estimate_ps_) : std::nullopt;
}

}  // namespace pleach
