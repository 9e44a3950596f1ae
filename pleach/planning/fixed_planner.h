// The planner that always takes one algorithm.
#pragma once

#include <memory>
#include <string_view>

#include "pleach/planning/planner.h"

namespace pleach {

// Looks at nothing yet: an unknown algorithm does nothing, and choosing says so.
Result<std::unique_ptr<Planner>> make_fixed_planner(const Topology& topology,
                                                    std::string_view algorithm_spec,
                                                    PlannerOptions options);

}  // namespace pleach
