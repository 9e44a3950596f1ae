#include "pleach/training/traffic_classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/network/session.h"
#include "pleach/training/trace_network.h"

namespace pleach {

TrafficClasses TrafficClasses::by_role() {
  TrafficClasses classes;
  classes.is_by_role_ = true;
  return classes;
}

Result<TrafficClasses> TrafficClasses::in_order(const std::vector<std::string>& names) {
  if (count_of(names) >= kTrafficClasses) {
    return invalid(fmt::format("{} names: at most {}", names.size(), kTrafficClasses - 1));
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty() || std::find(names.begin(), name, *name) != name) {
      return invalid(name->empty() ? "an empty name"
                                   : fmt::format("{} is there twice", pleach::quoted(*name)));
    }
  }
  TrafficClasses classes;
  classes.names_ = names;
  return classes;
}

Result<TrafficClasses> TrafficClasses::parse(std::string_view text) {
  if (text == "one") {
    return TrafficClasses();
  }
  if (text == "role") {
    return by_role();
  }
  std::vector<std::string> names;
  for (const std::string_view name : split(text, ',')) {
    names.emplace_back(trim(name));
  }
  return in_order(names);
}

int32_t TrafficClasses::of(const Family& family) const {
  if (!is_by_role_) {
    return of_name(family.name);
  }
  switch (family.role) {
    case FamilyRole::kTensor:
    case FamilyRole::kSequence:
    case FamilyRole::kExpert:
    case FamilyRole::kOther:
      return 0;
    case FamilyRole::kPipeline:
      return 1;
    case FamilyRole::kData:
    case FamilyRole::kExpertData:
    case FamilyRole::kEmbedding:
      return 2;
    case FamilyRole::kIo:
    case FamilyRole::kInput:
      break;
  }
  return 3;
}

int32_t TrafficClasses::of_messages() const {
  return is_by_role_ ? 1 : of_name(kPipelineFamily);
}

int32_t TrafficClasses::of_name(std::string_view name) const {
  return static_cast<int32_t>(std::ranges::find(names_, name) - names_.begin());
}

}  // namespace pleach
