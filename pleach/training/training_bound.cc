#include "pleach/training/training_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/planning/io_shares.h"
#include "pleach/policy/bound.h"
#include "pleach/policy/setup.h"
#include "pleach/training/free_iteration.h"
#include "pleach/training/least_costs.h"
#include "pleach/training/trace_index.h"

namespace pleach {
namespace {

constexpr double kSlack = 1e-12;  // of the sums of bytes

// A price per byte for each kind.
class ByteCosts : public CostModel {
 public:
  void set(CollectiveKind kind, double ps_per_byte) { prices_[at(kind)] = ps_per_byte; }
  bool has(CollectiveKind kind) const override { return prices_[at(kind)].has_value(); }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return static_cast<int64_t>(*prices_[at(kind)] * static_cast<double>(size_bytes));
  }

 private:
  std::array<std::optional<double>, kAllCollectives.size()> prices_;
};

// What a worker's streams take at the least, whatever the order of what they run.
int64_t busiest_stream_ps(const Trace& trace) {
  int64_t most_ps = 0;
  for (const WorkerTrace& worker : trace.workers) {
    std::map<TraceNodeKind, int64_t> sums_ps;
    for (const TraceNode& node : worker.nodes) {
      most_ps = std::max(most_ps, sums_ps[node.kind] += node.duration_ps);
    }
  }
  return most_ps;
}

// What I/O nodes take at the least for all that passes by them.
Result<int64_t> io_ps(const Trace& trace, const Topology& topology) {
  const TraceIndex index(trace);
  std::map<TraceNodeKind, double> bytes;
  for (const TraceChannel& channel : index.channels()) {
    if (!is_of_io(trace.families[at(channel.family)].role)) {
      continue;
    }
    for (const TraceNode& node : trace.workers[at(channel.workers.front())].nodes) {
      if (node.family == channel.family) {
        bytes[node.kind] +=
            static_cast<double>(node.size_bytes) * static_cast<double>(channel.groups.size());
      }
    }
  }
  double most_ps = 0;
  for (const auto& [kind, sum] : bytes) {
    PLEACH_ASSIGN(shares, IoShares::of(topology, io_collective(kind)));
    most_ps = std::max(most_ps, sum / static_cast<double>(shares.bandwidth_bytes_per_s()) *
                                    static_cast<double>(kPicosecondsPerSecond));
  }
  return static_cast<int64_t>(std::min(most_ps * (1 - kSlack), static_cast<double>(kLongestPs)));
}

// What a gradient group's collectives take at the least.
Result<ByteCosts> least_of(const GradientGroup& group, const Trace& trace, LeastCosts& least) {
  const TraceIndex index(trace);
  const int32_t channel = index.channel_of(group.workers.front(), group.family);
  ByteCosts costs;
  for (const CollectiveKind kind : gradient_collectives()) {
    PLEACH_ASSIGN(does, least.does(group.family, kind));
    if (does) {
      PLEACH_ASSIGN(price, least.ps_per_byte({.family = group.family,
                                              .groups = &index.channels()[at(channel)].groups,
                                              .kind = kind}));
      costs.set(kind, price);
    }
  }
  return costs;
}

}  // namespace

Result<int64_t> training_bound(const TrainingBoundRequest& request) {
  const Trace& trace = request.trace;
  const bool has_exchanges = find_family(trace, FamilyRole::kExpert) >= 0;
  std::optional<LeastCosts> least;
  if (request.network.source == CostSource::kFull) {
    least.emplace(*request.network.topology, trace, request.network.fabric);
  }
  int64_t bound_ps = request.free_ps;
  if (has_exchanges && request.strategy.streams()) {
    bound_ps = busiest_stream_ps(trace);
  } else if (has_exchanges || least.has_value()) {  // policies may reorder what is beside exchanges
    OperationCosts& costs =
        least.has_value() ? static_cast<OperationCosts&>(*least) : request.costs;
    PLEACH_ASSIGN(free, run_without_gradients(trace, costs, request.iteration, has_exchanges));
    bound_ps = free.iteration_ps;
  }
  if (least.has_value() && least->obeys_links()) {
    PLEACH_ASSIGN(all_ps, io_ps(trace, *request.network.topology));
    bound_ps = std::max(bound_ps, all_ps);
  }
  for (const GradientGroup& group : trace.gradient_groups) {
    TrainingProfile profile = profile_of(group);
    for (PolicyLayer& layer : profile.layers) {  // these may come after earlier layers' gradients
      layer.backward_ps -= has_exchanges ? layer.weight_gradient_ps : 0;
    }
    const auto bound_under = [&](const CostModel& costs) {
      return iteration_bound(profile, StageCosts(costs, request.strategy.zero)).iteration_ps;
    };
    if (least.has_value()) {
      PLEACH_ASSIGN(costs, least_of(group, trace, *least));
      bound_ps = std::max(bound_ps, bound_under(costs));
    } else {
      PLEACH_ASSIGN(costs, request.costs.family_costs(group.family, gradient_collectives()));
      bound_ps = std::max(bound_ps, bound_under(*costs));
    }
  }
  return bound_ps;
}

}  // namespace pleach
