#include "pleach/policy/plan.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {

Plan all_reduce_plan(std::span<const ByteRange> buckets) {
  Plan plan;
  for (const ByteRange& bucket : buckets) {
    plan.push_back({CollectiveKind::kAllReduce, bucket});
  }
  return plan;
}

Plan scatter_plan(std::span<const ByteRange> groups) {
  Plan plan;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    plan.push_back({CollectiveKind::kReduceScatter, *group});
  }
  return plan;
}

Plan decoupled_plan(std::span<const ByteRange> groups) {
  Plan plan = scatter_plan(groups);
  for (const ByteRange& group : groups) {
    plan.push_back({CollectiveKind::kAllGather, group});
  }
  return plan;
}

Plan owned_plan(std::span<const ByteRange> groups) {
  Plan plan = decoupled_plan(groups);
  for (PolicyCollective& one : plan) {
    one.kind = reduces(one.kind) ? CollectiveKind::kReduce : CollectiveKind::kBroadcast;
  }
  return plan;
}

PlanTimes::PlanTimes(const TrainingProfile& profile)
    : ready_ps(profile.layers.size()), rest_ps(profile.layers.size()) {
  int64_t backward_ps = 0;
  int64_t forward_ps = 0;
  for (std::size_t layer = profile.layers.size(); layer-- > 0;) {
    backward_ps += profile.layers[layer].backward_ps;
    forward_ps += profile.layers[layer].forward_ps;
    ready_ps[layer] = backward_ps;
    rest_ps[layer] = forward_ps;
  }
  compute_ps = backward_ps + forward_ps;
}

int64_t plan_time_ps(const TrainingProfile& profile, const CostModel& costs, const Plan& plan) {
  const ParameterSpace space(profile);
  const PlanTimes times(profile);
  int64_t now_ps = 0;
  int64_t end_ps = times.compute_ps;
  for (const PolicyCollective& one : plan) {
    // The first layer of a range yields its gradients last and needs its parameters first.
    const auto layer = at(space.layer_of(one.range.begin));
    if (reduces(one.kind)) {
      now_ps = std::max(now_ps, times.ready_ps[layer]);
    }
    now_ps += costs.time_ps(one.kind, one.range.size());
    if (distributes(one.kind)) {
      end_ps = std::max(end_ps, now_ps + times.rest_ps[layer]);
    }
  }
  return end_ps;
}

}  // namespace pleach
