// The registries: what there is to choose from.
#pragma once

#include <span>
#include <string>

#include "pleach/base/registry.h"

namespace pleach {

// One line: an object with an array of entries per registry, as docs/cli.md, "list", has them.
std::string to_json(std::span<const RegistryListing> listings);

}  // namespace pleach
