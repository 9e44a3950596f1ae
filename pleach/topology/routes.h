// Router: shortest routes, the same ones everywhere.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Finds a route with the fewest links, passing only through nodes that forward. Which one of them,
// says the topology's routing:
//   shortest  the first in link order at every node, which on grids is dimension-order routing
//   dmodk     at a switch, of c of them, the one numbered target mod c. Source: Zahavi, D-Mod-K
//             routing, 2010
//   ecmp      at every node the one of several that a hash of the seed, the node and both ends
//             picks
//   spread    as shortest: what is spread over links is spread for many at once (spread_routes.h)
// What is cut into stripes may take a route for each: where stripe 0 takes one of several links of
// the same bandwidth and latency to switches of the same latency, stripe s takes the s-th after it
// (with dmodk, of all; with ecmp, its own hash).
// Borrows the topology. Keeps one distance field (4 bytes a node) per target asked for, at most
// 256 MiB of them. Not thread safe.
class Router {
 public:
  explicit Router(const Topology& topology) : topology_(topology) {}

  // Empty when source and target are one. Errors: kInfeasible when no route exists (names both
  // nodes). Cost: O(links) for a new target that is no neighbour, then O(route · degree).
  Result<std::vector<LinkId>> route(NodeId source, NodeId target, int32_t stripe = 0);
  // How many stripes leave the source side by side. 0: no route.
  int32_t ways_out(NodeId source, NodeId target);
  // Links between the two, or -1 when there is no route.
  int32_t distance(NodeId source, NodeId target);
  // By node the links between it and an existing target, or -1. Valid until the next call.
  const std::vector<int32_t>& distances_to(NodeId target);

 private:
  LinkId direct_link(NodeId source, NodeId target, int32_t stripe);
  std::vector<LinkId>& alike();
  LinkId pick(NodeId node, NodeId source, NodeId target, int32_t stripe);

  const Topology& topology_;
  std::unordered_map<int32_t, std::vector<int32_t>> distances_;
  std::vector<LinkId> choices_;  // scratch of pick
};

// Calls visit(link) for every link out of `node` that lies on a shortest route to `target`, in link
// order. `distances` are those to the target.
template <typename Visit>
void for_each_nearer(const Topology& topology, const std::vector<int32_t>& distances, NodeId node,
                     NodeId target, Visit visit) {
  const int32_t nearer = distances[node.index()] - 1;
  for (const LinkId link : topology.links_out(node)) {
    const NodeId next = topology.link(link).target;
    if (distances[next.index()] == nearer &&
        (next == target || passes_through(topology.node(next)))) {
      visit(link);
    }
  }
}

// The error of a pair without a route, which names both.
Error no_route(const Topology& topology, NodeId source, NodeId target);

}  // namespace pleach
