// ZeRO-1: every rank updates its shard; all parameters are gathered before the next forward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

// The collectives of DeAR, of which none of the second half overlaps with anything.
Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const ParameterSpace space(setting.profile);
  return std::unique_ptr<Policy>(std::make_unique<PlanPolicy>(
      setting.profile, decoupled_plan(fuse_by_threshold(space, options.number("bucket"))),
      PolicyNeeds{.step_at_once = true}));
}

}  // namespace

extern const PolicyDescriptor kZero1Policy = {
    .name = "zero1",
    .summary = "reduce_scatter in backward, then an all_gather of everything before forward",
    .source = "Rajbhandari et al., ZeRO, SC 2020, sec. 5.1",
    .options = {group_size_option()},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .zero_stage = 1,
    .create = create,
};

}  // namespace pleach
