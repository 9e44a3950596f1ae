// Spanning trees that share the links of a graph step by step: MultiTree's construction.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

// A directed graph by vertex: arcs out of v are arcs[first[v] .. first[v+1]), in the order in which
// they are tried. Parallel arcs are entries of their own.
struct TreeGraph {
  struct Arc {
    int32_t target = 0;
    int32_t link = 0;  // < link_count; what the arc occupies for one step
  };
  std::vector<int32_t> first;
  std::vector<Arc> arcs;
  int32_t link_count = 0;

  int32_t vertex_count() const { return count_of(first) - 1; }
};

struct TreeOptions {
  // Trees in the order of their turns in the first round, and in all later rounds.
  std::vector<int32_t> first_order, later_order;
  // A step ends when the last tree of a round added nothing, not when a whole round did.
  bool ends_with_last_tree = false;
  int32_t interface_limit = 0;  // sends, and receives, of a vertex in one step; 0: any number
};

struct TreeEdge {
  int32_t tree = 0;  // its root
  int32_t parent = 0;
  int32_t child = 0;
  int32_t link = 0;
  int32_t step = 0;
};

struct Trees {
  std::vector<TreeEdge> edges;  // by step, in the order of their addition
  int32_t step_count = 0;
};

// Grows a spanning tree out of every vertex, together. In each step a link serves one tree, and a
// vertex is a parent only in trees that it had joined before the step. Trees take turns; in its
// turn a tree adds one edge, from its first member (in the order of joining) that has an arc to a
// vertex outside.
//   graph    every vertex reaches every other
//   source   Huang et al., ISCA 2021 (MultiTree), Algorithm 1
//   cost     O(steps · trees · frontier · degree); memory O(vertices²)
Trees grow_trees(const TreeGraph& graph, const TreeOptions& options);

}  // namespace pleach
