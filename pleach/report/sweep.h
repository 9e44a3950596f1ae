// What network a training needs.
#pragma once

#include <string>

#include "pleach/training/sweep.h"

namespace pleach {

// One line: the JSON object of docs/cli.md, "train", with --bandwidths. `wall_s`: how long the
// command took.
std::string to_json(const Sweep& sweep, double wall_s);

}  // namespace pleach
