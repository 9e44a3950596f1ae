// DeAR: reduce_scatter during backward, all_gather during the next forward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const ParameterSpace space(setting.profile);
  return std::unique_ptr<Policy>(std::make_unique<PlanPolicy>(
      setting.profile, decoupled_plan(fuse_by_threshold(space, options.number("bucket")))));
}

}  // namespace

extern const PolicyDescriptor kDearPolicy = {
    .name = "dear",
    .summary = "reduce_scatter in backward, all_gather in the next forward, by groups of layers",
    .source = "Zhang et al., DeAR, ICDCS 2023; tensor fusion as in its public code",
    .options = {group_size_option()},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .create = create,
};

}  // namespace pleach
