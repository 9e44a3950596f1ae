// The nodes of one kind.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Ascending. Of ranks Topology::rank_nodes() has them already.
inline std::vector<NodeId> nodes_of_kind(const Topology& topology, NodeKind kind) {
  std::vector<NodeId> nodes;
  for (int32_t index = 0; index < count_of(topology.nodes()); ++index) {
    if (topology.node(NodeId{index}).kind == kind) {
      nodes.push_back(NodeId{index});
    }
  }
  return nodes;
}

}  // namespace pleach
