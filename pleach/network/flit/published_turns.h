// The order in which MultiTree's published interfaces send and receive the messages of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Streams by step, then by flow, then by the edge over which the flow's parent has them: in the
// order in which links leave it, N, S, W, E on a grid. A flow is a tree. Flows go by root, where a
// chunk's reductions end and its gathers begin; those of one root, as a 2D ring has four, by edge
// the other way round: E, W, S, N.
//   source  the simulator of Huang et al., ISCA 2021: multitree_allreduce.py, ring2d_allreduce.py
std::vector<int32_t> published_turns(const Topology& topology, const LoweredSchedule& schedule);

}  // namespace pleach
