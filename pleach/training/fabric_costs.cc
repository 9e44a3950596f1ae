#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/training/costs.h"
#include "pleach/training/fabric_planners.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

// A curve has no fewer.
constexpr std::size_t kMostSizes = 16;

using FamilyKind = std::pair<int32_t, CollectiveKind>;
using Sizes = std::map<FamilyKind, std::set<int64_t>>;

void add_sizes(const WorkerTrace& worker, Sizes& sizes) {
  for (const TraceNode& node : worker.nodes) {
    const bool is_io = node.kind == TraceNodeKind::kLoad || node.kind == TraceNodeKind::kStore;
    if (node.family >= 0 && node.size_bytes > 0 &&
        (is_io || node.kind == TraceNodeKind::kCollective)) {
      sizes[{node.family, is_io ? io_collective(node.kind) : node.collective}].insert(
          node.size_bytes);
    }
  }
}

// Of the collectives that are asked for at a few sizes, none above largest_bytes, these. Not of
// families with which policies plan: those ask for others.
Sizes few_sizes(const Trace& trace, int64_t largest_bytes) {
  Sizes sizes;
  for (const WorkerTrace& worker : trace.workers) {
    add_sizes(worker, sizes);
  }
  const auto is_planned = [&](int32_t family) {
    return trace.families[at(family)].role == FamilyRole::kExpert ||
           std::ranges::count(trace.gradient_groups, family, &GradientGroup::family) > 0;
  };
  std::erase_if(sizes, [&](const auto& one) {
    const auto& [what, asked] = one;
    return asked.size() > kMostSizes || *asked.rbegin() > largest_bytes || is_planned(what.first);
  });
  return sizes;
}

class FabricCosts : public TraceCosts {
 public:
  FabricCosts(const Topology& topology, const Trace& trace, FabricOptions options,
              int64_t largest_bytes, int64_t overhead_ps)
      : topology_(topology),
        trace_(trace),
        model_(options.model),
        simulation_(options.simulation),
        overhead_ps_(overhead_ps),
        planners_(topology, trace, std::move(options)),
        largest_bytes_(largest_bytes),
        sizes_(few_sizes(trace, largest_bytes)),
        families_(trace.families.size()) {}

  Result<int64_t> collective_ps(const GroupCollective& what) override {
    const auto few = sizes_.find({what.family, what.kind});
    const bool is_known = few != sizes_.end() && few->second.contains(what.size_bytes);
    FamilyCosts& family = families_[at(what.family)];
    CurveCosts& costs = is_known ? family.at_sizes : family.curves;
    if (!costs.has(what.kind)) {
      PLEACH_ASSIGN(curve,
                    measure(what.family, what.kind, is_known ? few->second : std::set<int64_t>{}));
      costs.set(what.kind, std::move(curve));
    }
    return what.size_bytes == 0 ? 0 : costs.time_ps(what.kind, what.size_bytes);
  }

  Result<int64_t> send_ps(const WorkerSend& what) override {
    const auto [known, is_new] =
        sends_.try_emplace({*what.sources, *what.targets}, CostCurve::from_samples({{1, 0}}));
    if (is_new) {
      SendRequest request{.topology = topology_,
                          .pairs = {},
                          .model = model_,
                          .simulation = simulation_,
                          .largest_bytes = largest_bytes_};
      for (std::size_t i = 0; i < what.sources->size(); ++i) {
        request.pairs.emplace_back(node_of(topology_, (*what.sources)[i]),
                                   node_of(topology_, (*what.targets)[i]));
      }
      PLEACH_SET(known->second, measure_send(request));
    }
    return known->second.time_ps(what.size_bytes);
  }

  Result<const CostModel*> family_costs(int32_t family,
                                        std::span<const CollectiveKind> kinds) override {
    CurveCosts& costs = families_[at(family)].curves;
    for (const CollectiveKind kind : kinds) {
      PLEACH_ASSIGN(planner, planners_.planner(family, kind));
      if (!costs.has(kind) && planner->does(kind)) {
        PLEACH_ASSIGN(curve, measure(family, kind, {}));
        costs.set(kind, std::move(curve));
      }
    }
    return static_cast<const CostModel*>(&costs);
  }

 private:
  struct FamilyCosts {
    CurveCosts curves;
    CurveCosts at_sizes;  // at sizes_ alone
  };

  // At these sizes; none: at those that the curve chooses.
  Result<CostCurve> measure(int32_t family, CollectiveKind kind, const std::set<int64_t>& sizes) {
    PLEACH_ASSIGN(planner, planners_.planner(family, kind));
    CurveRequest request{.topology = topology_,
                         .planner = *planner,
                         .groups = {},
                         .collective = kind,
                         .by_io = is_of_io(trace_.families[at(family)].role),
                         .model = model_,
                         .simulation = simulation_,
                         .largest_bytes = largest_bytes_,
                         .sizes_bytes = {sizes.begin(), sizes.end()}};
    for (const auto& group : trace_.families[at(family)].groups) {
      request.groups.push_back(nodes_of(topology_, group));
    }
    PLEACH_ASSIGN(curve, CostCurve::measure(request));
    return with_overhead(std::move(curve));
  }

  // A curve that is 0 is of groups that do not communicate.
  CostCurve with_overhead(CostCurve curve) const {
    std::vector<CostCurve::Sample> samples = curve.samples();
    if (overhead_ps_ == 0 || samples.back().time_ps == 0) {
      return curve;
    }
    for (CostCurve::Sample& sample : samples) {
      sample.time_ps = add_times_ps(sample.time_ps, overhead_ps_);
    }
    return CostCurve::from_samples(std::move(samples));
  }

  const Topology& topology_;
  const Trace& trace_;
  const std::string model_;
  const SimulationOptions simulation_;
  const int64_t overhead_ps_;
  FabricPlanners planners_;
  const int64_t largest_bytes_;
  const Sizes sizes_;
  std::vector<FamilyCosts> families_;
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, CostCurve> sends_;  // by ranks
};

}  // namespace

Result<int64_t> curve_end_bytes(const FabricOptions& options, int64_t largest_bytes) {
  PLEACH_ASSIGN(model, network_models().entry_of(options.model));
  return std::min(options.curve_end_bytes.value_or(model->curve_end_bytes), largest_bytes);
}

std::unique_ptr<TraceCosts> fabric_costs(const Topology& topology, const Trace& trace,
                                         const FabricOptions& options, int64_t largest_bytes,
                                         int64_t overhead_ps) {
  return std::make_unique<FabricCosts>(topology, trace, options, largest_bytes, overhead_ps);
}

}  // namespace pleach
