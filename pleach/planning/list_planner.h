// The planner of several sources: the first that takes a request plans it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "pleach/planning/planner.h"

namespace pleach {

// So that files may give the schedules of some groups and collectives, and an algorithm the others.
// {"dp.json", "tp.json", "ring"}, at least one source. Where none takes a request, the last says
// why. Errors: those of make_planner() of each source.
Result<std::unique_ptr<Planner>> make_list_planner(const Topology& topology,
                                                   std::span<const std::string> sources,
                                                   PlannerOptions options);

}  // namespace pleach
