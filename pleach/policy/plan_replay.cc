#include "pleach/policy/plan_replay.h"

namespace pleach {
namespace {

std::vector<ByteRange> reductions_of(const Plan& plan) {
  std::vector<ByteRange> ranges;
  for (const PolicyCollective& one : plan) {
    if (one.kind != CollectiveKind::kAllGather) {
      ranges.push_back(one.range);
    }
  }
  return ranges;
}

// How many collectives of the plan must have finished before an all_gather: those up to the last
// reduce_scatter of its bytes.
int64_t count_before(const Plan& plan, std::size_t gather) {
  const ByteRange range = plan[gather].range;
  for (std::size_t before = gather; before-- > 0;) {
    const PolicyCollective& other = plan[before];
    if (other.kind == CollectiveKind::kReduceScatter && other.range.begin < range.end &&
        range.begin < other.range.end) {
      return static_cast<int64_t>(before) + 1;
    }
  }
  return 0;
}

}  // namespace

PlanReplay::PlanReplay(const ParameterSpace& space, const Plan& plan)
    : plan_(plan), gradients_(space, reductions_of(plan)) {
  for (std::size_t index = 0; index < plan.size(); ++index) {
    after_.push_back(count_before(plan, index));
  }
}

void PlanReplay::observe(const PolicyEvent& event) {
  if (event.kind == EventKind::kGradientReady) {
    gradients_.gradient_ready(event.index);
  } else if (event.kind == EventKind::kCollectiveFinished) {
    ++finished_;
  }
}

bool PlanReplay::may_start(std::size_t index) {
  return plan_[index].kind == CollectiveKind::kAllGather
             ? finished_ >= started_before_ + after_[index]
             : gradients_.take().has_value();
}

void PlanReplay::decide(int64_t /*now_ps*/, PolicyActions& actions) {
  while (!plan_.empty() && may_start(next_)) {
    actions.start.push_back(plan_[next_]);
    if (++next_ == plan_.size()) {
      next_ = 0;
      started_before_ += static_cast<int64_t>(plan_.size());
    }
  }
}

}  // namespace pleach
