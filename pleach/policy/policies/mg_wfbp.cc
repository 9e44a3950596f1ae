// MG-WFBP: all_reduce of merged gradients, merged where the startups saved outweigh the waiting.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const std::vector<TimedTensor> tensors = backward_order(setting.profile);
  const Plan plan =
      all_reduce_plan(options.text("merge") == "greedy" ? merge_greedily(tensors, setting.costs)
                                                        : merge_optimally(tensors, setting.costs));
  return std::unique_ptr<Policy>(
      std::make_unique<PlanPolicy>(setting.profile, plan, PolicyNeeds{.step_at_once = true}));
}

}  // namespace

extern const PolicyDescriptor kMgWfbpPolicy = {
    .name = "mg_wfbp",
    .summary = "all_reduce of gradients merged by predicted times; all parameters step together",
    .source = "Shi et al., MG-WFBP, INFOCOM 2019, Algorithm 1",
    .options = {{.name = "merge",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "greedy",
                 .summary = "the paper's rule, or the partition whose last all_reduce ends first",
                 .allowed = {"greedy", "optimal"}}},
    .collectives = {CollectiveKind::kAllReduce},
    .plans_by_costs = true,
    .create = create,
};

}  // namespace pleach
