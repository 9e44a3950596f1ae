// What the streams of a schedule ask of switches, pass by pass.
#pragma once

#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/switch_streams.h"
#include "pleach/topology/switch_pass.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Of a plain transfer: its route's switches, in order.
std::vector<SwitchPass> switch_passes(const Topology& topology, std::span<const LinkId> route);

// By stream: those of its crossings, then those of switches that its hops pass on their routes.
// Precondition: check_form(schedule, &topology) found nothing, and no route is missing.
std::vector<std::vector<SwitchPass>> switch_passes(const Topology& topology,
                                                   const Schedule& schedule,
                                                   const SwitchStreams& streams);

}  // namespace pleach
