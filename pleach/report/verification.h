// A proof, or why there is none.
#pragma once

#include <string>

#include "pleach/collective/verify.h"

namespace pleach {

// One line: the JSON object of docs/cli.md, "verify". `wall_s`: how long the command took.
//   on_topology  whether the proof was on one: contention_free is null without
std::string to_json(const Verification& verification, bool on_topology, double wall_s);

}  // namespace pleach
