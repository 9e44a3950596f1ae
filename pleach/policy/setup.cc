#include "pleach/policy/setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "pleach/policy/plan_policy.h"
#include "pleach/policy/settle.h"

namespace pleach {

std::span<const CollectiveKind> gradient_collectives() {
  static constexpr std::array kKinds = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                        CollectiveKind::kAllGather};
  return kKinds;
}

Result<PolicySetup> PolicySetup::create(std::string_view spec, int32_t zero_stage, bool settles) {
  PLEACH_ASSIGN(policy, policies().entry_of(spec));
  const auto selected = policies().select(spec);
  std::vector<CollectiveKind> collectives =
      selected ? collectives_of(*policy, selected->options) : policy->collectives;
  if (zero_stage > 0 && std::ranges::count(collectives, CollectiveKind::kAllReduce) > 0) {
    return invalid(fmt::format("policy {} does not fit zero={}: it needs all_reduce; use {}",
                               policy->name, zero_stage,
                               zero_stage == 3 ? "fsdp" : "zero1, dear or work_conserving"));
  }
  return PolicySetup(spec, *policy, std::move(collectives), zero_stage, settles);
}

std::span<const CollectiveKind> PolicySetup::collectives() const {
  return collectives_.empty() ? gradient_collectives() : collectives_;
}

Result<FittedPolicy> PolicySetup::fit(const PolicySetting& setting) const {
  FittedPolicy fitted;
  fitted.costs = std::make_unique<StageCosts>(setting.costs, zero_stage_);
  PLEACH_SET(fitted.policy, create_policy(spec_, {.profile = setting.profile,
                                                  .costs = *fitted.costs,
                                                  .seed = setting.seed}));
  if (settles_) {
    const auto plan = settle_plan(spec_, setting.profile, *fitted.costs, {.seed = setting.seed});
    if (!plan) {  // no matter of the costs, as those were for create_policy
      return invalid(plan.error().message);
    }
    fitted.policy = std::make_unique<PlanPolicy>(
        setting.profile, plan_of_bytes(ParameterSpace(setting.profile), plan->collectives),
        PolicyNeeds{.step_at_once = plan->step_at_once});
  }
  fitted.needs = fitted.policy->needs();
  if (zero_stage_ == 3 && !fitted.needs.frees_parameters) {
    return invalid(fmt::format(
        "policy {} does not fit zero=3: it keeps all parameters on every rank; use fsdp",
        policy_.name));
  }
  return fitted;
}

}  // namespace pleach
