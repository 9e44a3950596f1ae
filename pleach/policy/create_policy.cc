#include <fmt/format.h>

#include "pleach/base/units.h"
#include "pleach/policy/setup.h"

namespace pleach {
namespace {

// Policies and planners add up the costs of all collectives that they think of: more of them than
// tensors, and cuts beside.
Status check_costs(const PolicySetting& setting) {
  constexpr double kMostCuts = 4096;
  const ParameterSpace space(setting.profile);
  const auto time_ps = [&](CollectiveKind kind, int64_t bytes) {
    return static_cast<double>(setting.costs.time_ps(kind, bytes));
  };
  const double pieces = static_cast<double>(space.tensors().size()) + kMostCuts;
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
        CollectiveKind::kReduce, CollectiveKind::kBroadcast}) {
    if (space.total_bytes() > 0 && setting.costs.has(kind) &&
        time_ps(kind, space.total_bytes()) + pieces * time_ps(kind, 1) >
            static_cast<double>(kLongestPs)) {
      return invalid(fmt::format("{} of {} bytes of gradients, piece by piece, takes over {}",
                                 to_text(kind), space.total_bytes(), kLongestText));
    }
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Policy>> create_policy(std::string_view spec, const PolicySetting& setting) {
  PLEACH_TRY(check_profile(setting.profile));
  PLEACH_ASSIGN(selected, policies().select(spec));
  const auto& [policy, options] = selected;
  for (const CollectiveKind kind : collectives_of(*policy, options)) {
    if (!setting.costs.has(kind)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("policy {} needs {}, which the algorithm does not do", policy->name,
                               to_text(kind))};
    }
  }
  PLEACH_TRY(check_costs(setting));
  return policy->create(setting, options);
}

}  // namespace pleach
