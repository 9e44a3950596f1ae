// Lancet: mixture-of-experts layers whose all_to_alls overlap with computation; gradients as DDP.
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/exchange_parts.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  std::vector<int32_t> parts;
  for (const PolicyLayer& layer : setting.profile.layers) {
    if (layer.exchange_bytes > 0 && !setting.costs.has(CollectiveKind::kAllToAll)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("policy lancet needs all_to_all for layer {}, which the algorithm "
                               "does not do",
                               parts.size())};
    }
    parts.push_back(
        best_exchange_parts(layer, setting.costs, static_cast<int32_t>(options.integer("parts"))));
  }
  return std::unique_ptr<Policy>(std::make_unique<PlanPolicy>(
      setting.profile, all_reduce_plan(fuse_backward(ParameterSpace(setting.profile), options)),
      PolicyNeeds{.step_at_once = true,
                  .exchange_parts = std::move(parts),
                  .defers_weight_gradients = true}));
}

std::vector<OptionDescriptor> options() {
  std::vector<OptionDescriptor> options = {
      {.name = "parts",
       .kind = OptionDescriptor::Kind::kInteger,
       .default_value = "8",
       .summary = "most parts of an all_to_all and the computation beside it",
       .least = 1,
       .most = 1024}};
  const std::vector<OptionDescriptor> sizes = backward_size_options();
  options.insert(options.end(), sizes.begin(), sizes.end());
  return options;
}

}  // namespace

extern const PolicyDescriptor kLancetPolicy = {
    .name = "lancet",
    .summary = "all_to_alls in parts beside computation, weight gradients deferred; else as ddp",
    .source = "Jiang et al., Lancet, MLSys 2024",
    .options = options(),
    .collectives = {CollectiveKind::kAllReduce},
    .plans_by_costs = true,
    .create = create,
};

}  // namespace pleach
