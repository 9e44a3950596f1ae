// Trees of switches on which one stream fills what every cut lets through.
#pragma once

#include <span>

#include "pleach/base/id.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct SwitchAbilities {
  bool reduces = false;
  bool multicasts = false;
};

// Whether `links` are one link each way between two nodes at most, close no circle, end at the
// `ends`, of which each has one neighbour, and otherwise at nodes with the abilities that are
// asked for. Then one stream that turns at every switch of the way, or some, passes each link once.
//   cost  O(links log links)
bool is_stream_tree(const Topology& topology, std::span<const LinkId> links,
                    std::span<const NodeId> ends, SwitchAbilities asked);

}  // namespace pleach
