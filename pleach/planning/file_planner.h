// The planner that knows one schedule, which somebody wrote into a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pleach/planning/planner.h"

namespace pleach {

// Whether the schedule of a file is what is asked for. Errors: kInvalidArgument: why not.
Status check_asked(const Schedule& schedule, const std::string& path,
                   const ScheduleRequest& request);

// Whether it is correct; with a topology, on that. Errors: kInvalidArgument: the first violation.
Status check_proof(const Schedule& schedule, const std::string& path, const Topology* topology);

// Reads the file; proves it for the topology when it is first chosen.
Result<std::unique_ptr<Planner>> make_file_planner(const Topology& topology, std::string_view path,
                                                   PlannerOptions options);

}  // namespace pleach
