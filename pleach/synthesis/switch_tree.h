// SwitchTree: the switches that join a group of ranks, as a tree, and streams through it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Ways from ranks to a switch, the center, that pass through switches only; of each two neighbours
// there are links both ways.
class SwitchTree {
 public:
  // A hop from a node to a neighbour; passes as Transfer has them.
  struct Hop {
    LinkId link;
    TransferOp op = TransferOp::kCopy;
    uint16_t source_pass = 0;
    uint16_t target_pass = 0;
  };
  struct Stream {
    std::vector<Hop> hops;
    std::string obstacle;  // which switch cannot do its part, and why; empty: none
  };

  // The trees of shortest ways to each switch that there are, those with the shortest longest way
  // first, then those of the fewest links; of k alike the one of number ranks.front() mod k.
  // At least one. Borrows the topology.
  //   errors  kInfeasible: no switch reaches all `ranks`, naming one that reaches the most and whom
  //           it does not; there is no switch
  //   cost    O(switches · links)
  static Result<std::vector<SwitchTree>> find(const Topology& topology,
                                              std::span<const NodeId> ranks);

  // From some ranks to some, each once: added up where ways meet, copied where they part, once over
  // each link. One source or one target has the stream turn at its own switch, else it turns at
  // the center.
  Stream stream(std::span<const NodeId> sources, std::span<const NodeId> targets) const;
  // Links from a rank to another.
  std::vector<LinkId> route(NodeId source, NodeId target) const;

 private:
  SwitchTree(const Topology& topology, NodeId center) : topology_(&topology), center_(center) {}
  // From the node to the center, both included.
  std::vector<NodeId> way_up(NodeId node) const;
  std::vector<NodeId> way(NodeId source, NodeId target) const;
  LinkId link(NodeId source, NodeId target) const;

  const Topology* topology_;
  NodeId center_;
  std::map<NodeId, NodeId> above_;  // of all nodes but the center: the next one on the way there
};

}  // namespace pleach
