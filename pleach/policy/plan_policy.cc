#include "pleach/policy/plan_policy.h"

namespace pleach {

void PlanPolicy::observe(const PolicyEvent& event) {
  if (event.kind == EventKind::kGradientReady) {
    queue_.gradient_ready(event.index);
  } else if (event.kind == EventKind::kCollectiveFinished) {
    queue_.finish(event.index);
  }
}

void PlanPolicy::decide(int64_t /*now_ps*/, PolicyActions& actions) {
  while (const std::optional<PolicyCollective> one = queue_.take()) {
    actions.start.push_back(*one);
  }
}

}  // namespace pleach
