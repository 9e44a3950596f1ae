#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/policy/policies/builtin.h"
#include "pleach/policy/policy.h"

namespace pleach {

std::span<const PolicyDescriptor* const> policies() {
  static constexpr std::array kAll = {
      &kSequentialPolicy,    &kWfbpPolicy,           &kDdpPolicy,
      &kHorovodPolicy,       &kMgWfbpPolicy,         &kP3Policy,
      &kByteSchedulerPolicy, &kProphetPolicy,        &kDearPolicy,
      &kDearBoPolicy,        &kZero1Policy,          &kFsdpPolicy,
      &kLancetPolicy,        &kWorkConservingPolicy,
  };
  return kAll;
}

Result<const PolicyDescriptor*> find_policy(std::string_view name) {
  std::vector<std::string> known;
  for (const PolicyDescriptor* policy : policies()) {
    if (policy->name == name) {
      return policy;
    }
    known.push_back(policy->name);
  }
  return unknown_name("policy", name, known);
}

Result<std::unique_ptr<Policy>> create_policy(std::string_view spec, const PolicySetting& setting) {
  PLEACH_TRY(check_profile(setting.profile));
  PLEACH_ASSIGN(parsed, parse_spec(spec));
  PLEACH_ASSIGN(policy, find_policy(parsed.name));
  if (!parsed.argument.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("policy {} takes options after commas, not ':{}'", policy->name,
                             one_line(parsed.argument))};
  }
  PLEACH_ASSIGN(options, Options::create(policy->options, parsed.options,
                                         fmt::format("policy {}", policy->name)));
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
