// LinkTree: a network in which two nodes have one way between them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pleach/topology/topology.h"

namespace pleach {

// All links between two nodes are one edge of it.
struct LinkTree {
  std::vector<int32_t> order;     // its nodes, each after the one above it
  std::vector<int32_t> above;     // by node; −1: the first, and those that are no part
  std::vector<int64_t> up, down;  // by node: bandwidth to the one above, and from it [bytes/s]

  // Those of a node and all below it.
  std::vector<bool> below(int32_t node) const;
};

// The nodes that are `included` and the links between them, where these join all of them and close
// no circle; else none.
//   cost  O(nodes + links)
std::optional<LinkTree> link_tree(const Topology& topology, const std::vector<bool>& included);

}  // namespace pleach
