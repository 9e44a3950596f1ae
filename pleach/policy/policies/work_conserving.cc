// Work-conserving: a plan made before training, from profile and costs, that keeps the channel
// busy.
#include <memory>

#include "pleach/policy/plan_replay.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/search/plan_search.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const CostModel& costs = setting.costs;
  if (!costs.has(CollectiveKind::kAllReduce) &&
      !(costs.has(CollectiveKind::kReduceScatter) && costs.has(CollectiveKind::kAllGather))) {
    return Error{ErrorCode::kUnsupported,
                 "policy work_conserving needs all_reduce, or reduce_scatter and all_gather, which "
                 "the algorithm does not do"};
  }
  const Plan plan = search_plan(setting.profile, costs,
                                {.least_bytes = options.number("piece"),
                                 .effort = 1000 * options.integer("effort"),
                                 .seed = setting.seed});
  return std::unique_ptr<Policy>(
      std::make_unique<PlanReplay>(ParameterSpace(setting.profile), plan));
}

}  // namespace

extern const PolicyDescriptor kWorkConservingPolicy = {
    .name = "work_conserving",
    .summary = "a searched plan: all_gathers fill idle slots of backward, partitions of their own",
    .source = "Zhang et al., DeAR, ICDCS 2023, for what may run when; the search is Pleach's own",
    .options = {{.name = "piece",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "0",
                 .summary = "least bytes of a collective; 0: 1/256 of the model"},
                {.name = "effort",
                 .default_value = "2000",
                 .summary = "thousands of collectives that the search for a plan may place"}},
    .collectives = {},
    .create = create,
};

}  // namespace pleach
