// What the edge of a set of nodes allows a collective.
#pragma once

#include <cstdint>
#include <span>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/topology/link_tree.h"

namespace pleach {

// A set of nodes, by what crosses its edge [bytes/s].
struct Edge {
  double out = 0;
  double in = 0;
  double rank_count = 0;
  bool has_root = false;
};

struct EdgeBound {
  double algbw = 0;
  bool by_out = true;  // which direction limits
};

// What the edge of one set allows. Each rank's part of the result must cross it once for all the
// ranks beyond, however often it is copied or combined on the way.
EdgeBound bound_of(CollectiveKind collective, const Edge& edge, double rank_count);

// The node below whose edge to the one above the bound is least; −1: no edge parts participants.
// No set of nodes of a tree has a lower bound than this: of one that falls apart a part has none
// higher, as capacities and ranks of parts add up; and beside one that hangs together, all but what
// is behind one of its edges has as many ranks at least, and but that edge to cross. For an
// all_to_all, of which the ranks within and without count as a product, the pairs that a set parts
// are at most those that its edges part, one by one, so that one of these has no higher bound.
//   root  a participant
//   cost  O(nodes)
int32_t narrowest_edge(const LinkTree& tree, CollectiveKind collective,
                       std::span<const NodeId> participants, NodeId root);

}  // namespace pleach
