// Synthetic traffic on a topology, with the processor time that it took to simulate.
#pragma once

#include <string>

#include "pleach/base/result.h"
#include "pleach/report/traffic.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Options of `model`, "flit,vcs=4,...", over the rest of `options`.
// Errors: kInvalidArgument: another model than flit, an unknown option, one out of range.
Result<TrafficOptions> traffic_options(const std::string& model, TrafficOptions options);

// Runs it, as run_traffic() says, with its errors.
Result<RouterTraffic> simulate_traffic(const Topology& topology, const std::string& model,
                                       const TrafficOptions& options,
                                       const RunProgress& progress = {});

}  // namespace pleach
