#include "pleach/network/flow/flow.h"

#include <fmt/format.h>

#include <deque>
#include <vector>

#include "pleach/network/flow/engine.h"
#include "pleach/network/plan.h"
#include "pleach/network/prepare.h"

namespace pleach {
namespace {

// The way to simulate a symmetric schedule: folded where all ranks are alike, every translate where
// they are not, written out where priorities within a connection depend on chunk numbers.
Result<JobPlan> plan_symmetric(const Topology& topology, const Schedule& schedule, const Job& job,
                               const SimulationOptions& options, bool alone,
                               std::deque<Schedule>& kept) {
  PLEACH_ASSIGN(folded,
                JobPlan::create(topology, schedule, job.size_bytes, options, Instances::kFolded));
  if (!folded.has_plain_priorities()) {
    PLEACH_ASSIGN(written_out, expand(schedule, &topology));
    kept.push_back(std::move(written_out));
    return JobPlan::create(topology, kept.back(), job.size_bytes, options, Instances::kNone);
  }
  if (alone && options.fold && options.records == nullptr &&
      JobPlan::can_fold(topology, schedule, job.size_bytes)) {
    return std::move(folded);
  }
  return JobPlan::create(topology, schedule, job.size_bytes, options, Instances::kAll);
}

Result<Simulation> simulate_flow(const Topology& topology, std::span<const Job> jobs,
                                 const SimulationOptions& options) {
  PLEACH_TRY(check_jobs(topology, jobs, options));
  std::deque<Schedule> kept;  // schedules made here; references stay valid
  std::vector<FlowJob> all;
  for (const Job& job : jobs) {
    PLEACH_ASSIGN(routed, with_routes(topology, *job.schedule));
    const Schedule* schedule = job.schedule;
    if (routed.has_value()) {
      kept.push_back(std::move(*routed));
      schedule = &kept.back();
    }
    auto plan =
        schedule->symmetry.has_value()
            ? plan_symmetric(topology, *schedule, job, options, jobs.size() == 1, kept)
            : JobPlan::create(topology, *schedule, job.size_bytes, options, Instances::kNone);
    PLEACH_TRY(plan);
    all.push_back({std::move(*plan), job.start_ps});
  }
  Engine engine(topology, all, options);
  PLEACH_ASSIGN(result, engine.run());
  if (all.size() == 1 && all.front().plan.instances() == Instances::kFolded) {
    all.front().plan.unfold(topology, result);
  }
  return std::move(result);
}

}  // namespace

const NetworkModel kFlowModel = {
    .name = "flow",
    .summary = "fluid: one segment at a time per connection, max-min shares of links",
    .source = "Bertsekas & Gallager, Data Networks, sec. 6.5.2",
    .simulate = simulate_flow,
};

}  // namespace pleach
