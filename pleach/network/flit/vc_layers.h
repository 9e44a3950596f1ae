// VC layers: which class of VCs each route takes, so that packets cannot wait in a circle.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"

namespace pleach {

struct VcLayers {
  int32_t count = 1;
  std::vector<int32_t> layer_of;  // by route
  // A cycle of links, each of which is waited for by the one before; empty where all routes fit.
  std::vector<LinkId> cycle;
};

// Gives every route the first layer in which no link then depends on itself: a packet that holds a
// VC of a link waits for one of the next link of its route, in the same layer. Of the first route
// that fits none of `most_layers` the cycle in the last one is kept; it gets layer 0, as do the
// others that do not fit.
//   routes   links in order; those of one link at most depend on nothing
//   cost     O(links of all routes), and a search of part of the links per new dependency
//   source   Dally & Seitz, Deadlock-free message routing, 1987; Skeie et al., LASH, 2002; the
//   order
//            is kept as in Pearce & Kelly, A dynamic topological sort algorithm, 2007
VcLayers assign_vc_layers(int32_t link_count, std::span<const std::vector<LinkId>> routes,
                          int32_t most_layers);

}  // namespace pleach
