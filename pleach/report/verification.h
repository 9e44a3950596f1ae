// A proof, or why there is none.
#pragma once

#include <optional>
#include <string>

#include "pleach/collective/verify.h"

namespace pleach {

// One line: the JSON object of docs/cli.md, "verify". `wall_s`: how long the command took.
//   on_topology     whether the proof was on one: contention_free is null without
//   is_planned_for  whether the schedule says that it was planned for that one; none: it does not
//                   say for which
std::string to_json(const Verification& verification, bool on_topology,
                    std::optional<bool> is_planned_for, double wall_s);

}  // namespace pleach
