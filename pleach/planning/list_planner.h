// The planner of several sources: the first that can plan a request does.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "pleach/planning/planner.h"

namespace pleach {

// So that files may give the schedules of some groups and collectives, and an algorithm the others,
// {"dp.json", "tp.json", "ring"}, at least one source; and that a group has the next algorithm
// where the topology does not allow the one before: {"in_switch", "ring_2d", "ring"}. What has
// planned a group does so at every size. Where none does, the last that tried says why. Errors:
// those of make_planner() of each source.
Result<std::unique_ptr<Planner>> make_list_planner(const Topology& topology,
                                                   std::span<const std::string> sources,
                                                   PlannerOptions options);

}  // namespace pleach
