// Spanning trees that share the links of a graph step by step: MultiTree's construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"

namespace pleach {

// A directed graph: its vertices come first, then the nodes between them, which ways pass through:
// switches, others that forward. Arcs out of node v are arcs[first[v] .. first[v+1]), in the order
// in which they are tried. Parallel arcs are entries of their own.
struct TreeGraph {
  struct Arc {
    int32_t target = 0;
    LinkId link;  // below link_count; what the arc occupies for one step
  };
  int32_t vertex_count = 0;
  std::vector<int32_t> first;
  std::vector<Arc> arcs;
  int32_t link_count = 0;

  int32_t node_count() const { return count_of(first) - 1; }
  std::span<const Arc> arcs_of(int32_t node) const {
    const auto begin = at(first[at(node)]);
    return std::span(arcs).subspan(begin, at(first[at(node) + 1]) - begin);
  }
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
  int32_t step = 0;
  int32_t first_link = 0;  // of its way, in Trees::links
  int32_t link_count = 1;
};

struct Trees {
  std::vector<TreeEdge> edges;  // by step, in the order of their addition
  std::vector<LinkId> links;    // of all edges' ways, from parent to child
  int32_t step_count = 0;

  std::span<const LinkId> way(const TreeEdge& edge) const {
    return std::span(links).subspan(at(edge.first_link), at(edge.link_count));
  }
};

// Grows a spanning tree out of every vertex, together. In each step a link serves one tree, and a
// vertex is a parent only in trees that it had joined before the step. Trees take turns; in its
// turn a tree adds one edge, from its first member (in the order of joining) that has a way of free
// links to a vertex outside: of the nearest the first, breadth first in the order of arcs. So a
// parent serves neighbours and those on its own switch first. A way ends at the first switch that
// has vertices, other than the parent's own: those behind are reached from there, in later steps,
// and no step takes two cables where one would do. Where a step adds nothing so, it is done again
// with ways that go on.
//   graph    every vertex reaches every other
//   source   Huang et al., ISCA 2021 (MultiTree), Algorithm 1
//   cost     O(steps · trees · frontier · degree), and for each parent with a free link one search
//            of the nodes between; memory O(vertices² · links of a way)
Trees grow_trees(const TreeGraph& graph, const TreeOptions& options);

}  // namespace pleach
