#include <algorithm>
#include <map>
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
        families_(trace.families.size()) {}

  Result<int64_t> collective_ps(const GroupCollective& what) override {
    CurveCosts& costs = families_[at(what.family)];
    if (!costs.has(what.kind)) {
      PLEACH_TRY(measure(what.family, what.kind));
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
    CurveCosts& costs = families_[at(family)];
    for (const CollectiveKind kind : kinds) {
      PLEACH_ASSIGN(planner, planners_.planner(family, kind));
      if (!costs.has(kind) && planner->does(kind)) {
        PLEACH_TRY(measure(family, kind));
      }
    }
    return static_cast<const CostModel*>(&costs);
  }

 private:
  Status measure(int32_t family, CollectiveKind kind) {
    PLEACH_ASSIGN(planner, planners_.planner(family, kind));
    CurveRequest request{.topology = topology_,
                         .planner = *planner,
                         .groups = {},
                         .collective = kind,
                         .by_io = is_of_io(trace_.families[at(family)].role),
                         .model = model_,
                         .simulation = simulation_,
                         .largest_bytes = largest_bytes_};
    for (const auto& group : trace_.families[at(family)].groups) {
      request.groups.push_back(nodes_of(topology_, group));
    }
    PLEACH_ASSIGN(curve, CostCurve::measure(request));
    families_[at(family)].set(kind, with_overhead(std::move(curve)));
    return ok();
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
  std::vector<CurveCosts> families_;
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
