// What a link is called in texts that people read.
#pragma once

#include <string>

#include "pleach/topology/topology.h"

namespace pleach {

// "0->1", by the names of the link's ends, which are nodes of the topology.
std::string link_name(const Topology& topology, const Link& link);
std::string link_name(const Topology& topology, LinkId link);

}  // namespace pleach
