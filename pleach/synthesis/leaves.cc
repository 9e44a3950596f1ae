#include "pleach/synthesis/leaves.h"

#include <algorithm>
#include <map>

namespace pleach {
namespace {

// The switch that is the node's only neighbour; none: there is no such one.
NodeId only_switch(const Topology& topology, NodeId node) {
  NodeId found;
  for (const LinkId link : topology.links_out(node)) {
    const NodeId target = topology.link(link).target;
    if (topology.node(target).kind != NodeKind::kSwitch || (found.value >= 0 && found != target)) {
      return {};
    }
    found = target;
  }
  return found;
}

}  // namespace

std::optional<Leaves> find_leaves(const Topology& topology, std::span<const NodeId> participants) {
  std::map<NodeId, std::vector<int32_t>> by_switch;
  for (int32_t rank = 0; rank < count_of(participants); ++rank) {
    const NodeId hub = only_switch(topology, participants[at(rank)]);
    if (hub.value < 0) {
      return std::nullopt;
    }
    by_switch[hub].push_back(rank);
  }
  Leaves leaves;
  for (auto& [hub, ranks] : by_switch) {
    std::ranges::sort(ranks, {}, [&](int32_t rank) { return participants[at(rank)]; });
    leaves.switches.push_back(hub);
    leaves.ranks.push_back(std::move(ranks));
    if (leaves.ranks.back().size() != leaves.ranks.front().size()) {
      return std::nullopt;
    }
  }
  return leaves;
}

bool are_bigraph(const Topology& topology, const Leaves& leaves) {
  const int32_t count = leaves.switch_count();
  if (count % 2 != 0) {
    return false;
  }
  const auto has_link = [&](int32_t from, int32_t to) {
    return std::ranges::any_of(topology.links_out(leaves.switches[at(from)]), [&](LinkId link) {
      return topology.link(link).target == leaves.switches[at(to)];
    });
  };
  for (int32_t from = 0; from < count; ++from) {
    for (int32_t to = 0; to < count; ++to) {
      const bool are_apart = (from < count / 2) != (to < count / 2);
      if (from != to && has_link(from, to) != are_apart) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace pleach
