#include "pleach/topology/link_tree.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// Visits the nodes that links of `node` lead to, or come from; until `visit` says false.
template <typename Visit>
bool visit_neighbours(const Topology& topology, NodeId node, const Visit& visit) {
  for (const LinkId id : topology.links_out(node)) {
    if (!visit(topology.link(id).target.value, topology.link(id).bandwidth_bytes_per_s, true)) {
      return false;
    }
  }
  for (const LinkId id : topology.links_in(node)) {
    if (!visit(topology.link(id).source.value, topology.link(id).bandwidth_bytes_per_s, false)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<bool> LinkTree::below(int32_t node) const {
  std::vector<bool> is_below(above.size(), false);
  is_below[at(node)] = true;
  for (const int32_t other : order) {
    if (above[at(other)] >= 0 && is_below[at(above[at(other)])]) {
      is_below[at(other)] = true;
    }
  }
  return is_below;
}

std::optional<LinkTree> link_tree(const Topology& topology, const std::vector<bool>& included) {
  const std::size_t count = topology.nodes().size();
  LinkTree tree = {{},
                   std::vector<int32_t>(count, -1),
                   std::vector<int64_t>(count, 0),
                   std::vector<int64_t>(count, 0)};
  std::vector<bool> is_seen(count, false);
  const auto first = std::ranges::find(included, true);
  if (first == included.end()) {
    return std::nullopt;
  }
  tree.order.push_back(static_cast<int32_t>(first - included.begin()));
  is_seen[at(tree.order.front())] = true;
  for (std::size_t next = 0; next < tree.order.size(); ++next) {
    const int32_t node = tree.order[next];
    const bool is_open =
        visit_neighbours(topology, NodeId{node}, [&](int32_t other, int64_t bytes_per_s, bool out) {
          if (!included[at(other)]) {
            return true;
          }
          if (other == tree.above[at(node)]) {
            (out ? tree.up : tree.down)[at(node)] += bytes_per_s;
            return true;
          }
          if (!is_seen[at(other)]) {
            is_seen[at(other)] = true;
            tree.above[at(other)] = node;
            tree.order.push_back(other);
          }
          return tree.above[at(other)] == node;  // else a second way to it
        });
    if (!is_open) {
      return std::nullopt;
    }
  }
  if (count_of(tree.order) != std::ranges::count(included, true)) {
    return std::nullopt;
  }
  return tree;
}

}  // namespace pleach
