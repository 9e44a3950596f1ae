// What every network model asks of options and jobs before it looks at them.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/base/result.h"
#include "pleach/base/units.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// The error of a simulation that passes kLongestPs.
Error takes_too_long();

// Errors: kUnsupported: switches change their configuration in no time in this model.
Status check_no_reconfiguration(const SimulationOptions& options, const std::string& model);
// Errors: kInvalidArgument naming the value.
Status check_options(const SimulationOptions& options);
// A job for a session that has come to `now_ps`. Errors: kInvalidArgument naming the value, or the
// participant that is no node.
Status check_job(const Topology& topology, const Job& job, int64_t now_ps);
// What a schedule with all its routes sends over links, headers included. Errors: kInvalidArgument:
// more than sums of it could hold.   cost  O(transfers)
Status check_wire_bytes(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                        const SimulationOptions& options);

}  // namespace pleach
