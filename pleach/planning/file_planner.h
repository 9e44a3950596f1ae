// The planner that knows one schedule, which somebody wrote into a file.
#pragma once

#include <memory>
#include <string_view>

#include "pleach/planning/planner.h"

namespace pleach {

// Reads the file; proves it for the topology when it is first chosen.
Result<std::unique_ptr<Planner>> make_file_planner(const Topology& topology, std::string_view path,
                                                   PlannerOptions options);

}  // namespace pleach
