// DDP: all_reduce of buckets of tensors in reverse order, during backward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const Plan plan = all_reduce_plan(fuse_backward(ParameterSpace(setting.profile), options));
  return std::unique_ptr<Policy>(
      std::make_unique<PlanPolicy>(setting.profile, plan, PolicyNeeds{.step_at_once = true}));
}

}  // namespace

extern const PolicyDescriptor kDdpPolicy = {
    .name = "ddp",
    .summary = "all_reduce of buckets of tensors, last tensor first, strictly in order",
    .source = "Li et al., PyTorch Distributed, VLDB 2020, sec. 3.2",
    .options = backward_size_options(),
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
