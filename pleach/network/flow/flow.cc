#include "pleach/network/flow/flow.h"

#include <map>
#include <memory>

#include "pleach/network/flow/engine.h"
#include "pleach/network/flow/flow_plans.h"
#include "pleach/network/job_checks.h"

namespace pleach {
namespace {

Result<Simulation> simulate_folded(const Topology& topology, LoweredJob plan, int64_t start_ps,
                                   const SimulationOptions& options) {
  Engine engine(topology, options);
  const LoweredJob kept = plan;
  engine.add(std::move(plan), start_ps);
  PLEACH_ASSIGN(result, engine.run());
  kept.unfold(topology, result);
  return std::move(result);
}

Result<Simulation> simulate_flow(const Topology& topology, std::span<const Job> jobs,
                                 const SimulationOptions& options) {
  PLEACH_TRY(check_jobs(topology, jobs, options));
  if (options.records != nullptr) {
    options.records->resize(jobs.size());
  }
  std::map<const Schedule*, std::unique_ptr<FlowPlans>> plans_of;
  Engine engine(topology, options);
  for (const Job& job : jobs) {
    std::unique_ptr<FlowPlans>& plans = plans_of[job.schedule];
    if (plans == nullptr) {
      PLEACH_SET(plans, FlowPlans::create(topology, *job.schedule, options));
    }
    if (jobs.size() == 1) {
      PLEACH_ASSIGN(folded, plans->folded(job.size_bytes));
      if (folded.has_value()) {
        return simulate_folded(topology, std::move(*folded), job.start_ps, options);
      }
    }
    PLEACH_ASSIGN(plan, plans->whole(job.size_bytes));
    engine.add(std::move(plan), job.start_ps);
  }
  return engine.run();
}

}  // namespace

extern const NetworkModel kFlowModel = {
    .name = "flow",
    .summary = "fluid: one segment at a time per connection, max-min shares of links",
    .source = "Bertsekas & Gallager, Data Networks, sec. 6.5.2",
    .simulate = simulate_flow,
};

}  // namespace pleach
