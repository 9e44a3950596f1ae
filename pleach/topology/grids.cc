#include "pleach/topology/grids.h"

#include <algorithm>

namespace pleach {

bool is_bare_grid(const Topology& topology) {
  return !topology.grid().empty() && topology.rank_nodes().size() == topology.nodes().size();
}

bool are_whole_grid(const Topology& topology, std::span<const NodeId> nodes) {
  return !topology.grid().empty() && nodes.size() == topology.rank_nodes().size() &&
         std::ranges::all_of(
             nodes, [&](NodeId node) { return topology.node(node).kind == NodeKind::kRank; });
}

}  // namespace pleach
