#include "pleach/network/flow/flow_plans.h"

#include "pleach/network/job_checks.h"

namespace pleach {

Result<std::unique_ptr<FlowPlans>> FlowPlans::create(const Topology& topology,
                                                     const Schedule& schedule,
                                                     const SimulationOptions& options) {
  std::unique_ptr<FlowPlans> plans(new FlowPlans(topology, schedule, options));
  PLEACH_ASSIGN(routed, with_routes(topology, schedule));
  if (routed.has_value()) {
    plans->made_ = std::move(routed);
    plans->schedule_ = &*plans->made_;
  }
  if (!schedule.symmetry.has_value()) {
    return plans;
  }
  PLEACH_ASSIGN(folded,
                LoweredSchedule::create(topology, *plans->schedule_, options, Instances::kFolded));
  if (!folded->has_plain_priorities()) {
    PLEACH_SET(plans->made_, expand(*plans->schedule_, &topology));
    plans->schedule_ = &*plans->made_;
  } else if (options.fold && options.records == nullptr && schedule.chunks.is_uniform() &&
             LinkTranslation::create(schedule, topology, true)) {
    plans->folded_ = std::move(folded);
  }
  return plans;
}

Result<std::optional<LoweredJob>> FlowPlans::folded(int64_t size_bytes) {
  if (folded_ == nullptr || !LoweredJob::has_equal_chunks(*schedule_, size_bytes)) {
    return std::optional<LoweredJob>();
  }
  PLEACH_ASSIGN(plan, LoweredJob::create(folded_, size_bytes));
  return std::optional(std::move(plan));
}

Result<LoweredJob> FlowPlans::whole(int64_t size_bytes) {
  if (whole_ == nullptr) {
    const Instances instances =
        schedule_->symmetry.has_value() ? Instances::kAll : Instances::kNone;
    PLEACH_SET(whole_, LoweredSchedule::create(topology_, *schedule_, options_, instances));
  }
  return LoweredJob::create(whole_, size_bytes);
}

}  // namespace pleach
