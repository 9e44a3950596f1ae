#include "pleach/policy/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// The least time per byte that the costs offer at any size; infinite where they lack the kind. On a
// concave piece of the costs it is at an end of the piece.
double least_ps_per_byte(const CostModel& costs, CollectiveKind kind, int64_t total_bytes) {
  if (!costs.has(kind)) {
    return std::numeric_limits<double>::infinity();
  }
  const auto rate = [&](int64_t bytes) {
    return static_cast<double>(costs.time_ps(kind, bytes)) / static_cast<double>(bytes);
  };
  double least = rate(total_bytes);
  for (const int64_t bytes : costs.breakpoints(kind)) {
    least = bytes < total_bytes ? std::min(least, rate(bytes)) : least;
  }
  return least;
}

// The least for reducing and distributing, each half at the size that suits it.
double least_ps_per_byte(const CostModel& costs, int64_t total_bytes) {
  const auto one = [&](CollectiveKind kind) { return least_ps_per_byte(costs, kind, total_bytes); };
  return std::min({one(CollectiveKind::kAllReduce),
                   one(CollectiveKind::kReduceScatter) + one(CollectiveKind::kAllGather),
                   one(CollectiveKind::kReduce) + one(CollectiveKind::kBroadcast)});
}

}  // namespace

IterationBound iteration_bound(const TrainingProfile& profile, const CostModel& costs) {
  const ParameterSpace space(profile);
  const double rate = space.total_bytes() > 0 ? least_ps_per_byte(costs, space.total_bytes()) : 0.0;
  IterationBound bound;
  for (const PolicyLayer& layer : profile.layers) {
    bound.compute_ps += layer.forward_ps + layer.backward_ps;
  }
  const auto time_of = [&](int64_t bytes) {
    return static_cast<int64_t>(std::floor(rate * static_cast<double>(bytes)));
  };
  bound.communication_ps = time_of(space.total_bytes());
  bound.iteration_ps = std::max(bound.compute_ps, bound.communication_ps);
  bound.layer = -1;
  int64_t later_ps = bound.compute_ps;  // of layers ≥ l
  for (int32_t layer = 0; layer < space.layer_count(); ++layer) {
    const int64_t mixed_ps = later_ps + time_of(space.layer(layer).end);
    if (space.layer(layer).size() > 0 && mixed_ps > bound.iteration_ps) {
      bound.iteration_ps = mixed_ps;
      bound.layer = layer;
    }
    const PolicyLayer& one = profile.layers[at(layer)];
    later_ps -= one.forward_ps + one.backward_ps;
  }
  return bound;
}

}  // namespace pleach
