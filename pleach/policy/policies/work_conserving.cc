// Work-conserving: a plan made before training, from profile and costs, that keeps the channel
// busy.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/search/plan_search.h"
#include "pleach/policy/setup.h"

namespace pleach {
namespace {

// Policies that it is never slower than on the same costs, or on the mean of those within a margin.
constexpr std::array kKnown = {"dear",
                               "dear,bucket=0",
                               "dear,bucket=1MiB",
                               "dear,bucket=2MiB",
                               "dear,bucket=4MiB",
                               "dear,bucket=8MiB",
                               "dear,bucket=16MiB",
                               "dear,bucket=32MiB",
                               "dear,bucket=64MiB",
                               "dear,bucket=128MiB",
                               "dear,bucket=256MiB",
                               "ddp",
                               "mg_wfbp",
                               "mg_wfbp,merge=optimal"};

// Their plans, as far as the costs have what they need. All of them distribute after all
// reductions.
Result<std::vector<Plan>> known_plans(const PolicySetting& setting) {
  std::vector<Plan> plans;
  for (const char* spec : kKnown) {
    PLEACH_ASSIGN(selected, policies().select(spec));
    const auto& [policy, options] = selected;
    if (std::ranges::all_of(policy->collectives,
                            [&](CollectiveKind kind) { return setting.costs.has(kind); })) {
      PLEACH_ASSIGN(other, policy->create(setting, options));
      const std::span<const PolicyCollective> plan = other->plan();
      PLEACH_CHECK(!plan.empty(), "a known policy follows no plan");
      plans.emplace_back(plan.begin(), plan.end());
    }
  }
  return plans;
}

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const bool scatters = options.text("collectives") == "scatter";
  const StageCosts costs(setting.costs, scatters ? 1 : 0);
  if (!costs.has(CollectiveKind::kAllReduce) &&
      !(costs.has(CollectiveKind::kReduceScatter) && costs.has(CollectiveKind::kAllGather))) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("policy work_conserving needs {}reduce_scatter and all_gather, which "
                             "the algorithm does not do",
                             scatters ? "" : "all_reduce, or ")};
  }
  PlanSearchOptions search = {.least_bytes = options.number("piece"),
                              .effort = 1000 * options.integer("effort"),
                              .gathers_last = options.text("gathers") == "after_step",
                              .margin_percent = options.integer("margin"),
                              .seed = setting.seed};
  if (ParameterSpace(setting.profile).total_bytes() > 0) {
    PLEACH_SET(search.known,
               known_plans({.profile = setting.profile, .costs = costs, .seed = setting.seed}));
  }
  return std::unique_ptr<Policy>(
      std::make_unique<PlanPolicy>(setting.profile, search_plan(setting.profile, costs, search)));
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
                 .summary = "thousands of collectives that the search for a plan may place"},
                {.name = "margin",
                 .default_value = "0",
                 .summary = "the plan with the best mean iteration time at costs of -N %, 0 and "
                            "+N %, for costs that are measured",
                 .most = 90},
                {.name = "gathers",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "early",
                 .summary = "all_gathers may travel in backward, which needs updates before the "
                            "step, or none before all reductions",
                 .allowed = {"early", "after_step"}},
                {.name = "collectives",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "any",
                 .summary = "scatter: no all_reduce, for state that is sharded",
                 .allowed = {"any", "scatter"}}},
    .collectives = {},
    .plans_by_costs = true,
    .create = create,
};

}  // namespace pleach
