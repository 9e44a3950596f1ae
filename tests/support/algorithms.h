// The algorithms' specs, for tests of all that there is.
#pragma once

#include <string>
#include <vector>

#include "pleach/synthesis/algorithm.h"

namespace pleach::support {

// The algorithm as it comes, and with each of its options' other values.
inline std::vector<std::string> specs_of(const Algorithm& algorithm) {
  std::vector<std::string> specs = {algorithm.name};
  for (const OptionDescriptor& option : algorithm.options) {
    for (const std::string& value : option.allowed) {
      if (value != option.default_value) {
        specs.push_back(algorithm.name + "," + option.name + "=" + value);
      }
    }
  }
  return specs;
}

}  // namespace pleach::support
