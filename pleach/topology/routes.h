// Router: shortest routes, the same ones everywhere.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Finds the route with the fewest links; among those the first in link order at every node, which
// on grids is dimension-order routing. Passes only through nodes that forward.
// Borrows the topology. Keeps one distance field (4 bytes a node) per target asked for, at most
// 256 MiB of them. Not thread safe.
class Router {
 public:
  explicit Router(const Topology& topology) : topology_(topology) {}

  // Empty when source and target are one. Errors: kInfeasible when no route exists (names both
  // nodes). Cost: O(links) for a new target that is no neighbour, then O(route · degree).
  Result<std::vector<LinkId>> route(NodeId source, NodeId target);
  // Links between the two, or -1 when there is no route.
  int32_t distance(NodeId source, NodeId target);

 private:
  const std::vector<int32_t>& distances_to(NodeId target);

  const Topology& topology_;
  std::unordered_map<int32_t, std::vector<int32_t>> distances_;
};

}  // namespace pleach
