// What every network model asks of a job before it looks at it.
#pragma once

#include <cstdint>
#include <optional>

#include "pleach/base/result.h"
#include "pleach/base/units.h"
#include "pleach/network/model.h"

namespace pleach {

// The error of a simulation that passes kLongestPs.
Error takes_too_long();

// Checks options and jobs against the topology. Errors: kInvalidArgument naming the value.
Status check_jobs(const Topology& topology, std::span<const Job> jobs,
                  const SimulationOptions& options);

// The schedule with every route filled in, if it lacks some; else empty. Errors: kInfeasible.
Result<std::optional<Schedule>> with_routes(const Topology& topology, const Schedule& schedule);

}  // namespace pleach
