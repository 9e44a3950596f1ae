#include <fmt/format.h>

#include "pleach/policy/policy.h"

namespace pleach {

Result<std::unique_ptr<Policy>> create_policy(std::string_view spec, const PolicySetting& setting) {
  PLEACH_TRY(check_profile(setting.profile));
  PLEACH_ASSIGN(selected, policies().select(spec));
  const auto& [policy, options] = selected;
  for (const CollectiveKind kind : policy->collectives) {
    if (!setting.costs.has(kind)) {
      return Error{ErrorCode::kUnsupported,
                   fmt::format("policy {} needs {}, which the algorithm does not do", policy->name,
                               to_text(kind))};
    }
  }
  return policy->create(setting, options);
}

}  // namespace pleach
