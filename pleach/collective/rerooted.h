// The same schedule for another root.
#pragma once

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// A schedule that does with `root` as root what `schedule` does with its own: every rank takes the
// part of the one that is as far from the root. Its certificate goes; routes stay with the nodes.
//   schedule  correct, of a collective with a root
//   errors    kInvalidArgument: no such root, a collective without one; the first violation, where
//             the result is not correct
Result<Schedule> rerooted(const Schedule& schedule, Rank root);

}  // namespace pleach
