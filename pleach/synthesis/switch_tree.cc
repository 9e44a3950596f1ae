#include "pleach/synthesis/switch_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {
namespace {

bool is_switch(const Topology& topology, NodeId node) {
  return topology.node(node).kind == NodeKind::kSwitch;
}

// The first link; none: there is none.
LinkId first_link(const Topology& topology, NodeId source, NodeId target) {
  for (const LinkId link : topology.links_out(source)) {
    if (topology.link(link).target == target) {
      return link;
    }
  }
  return {};
}

// Of each node that is reached: the one before it. Breadth first, through switches.
std::map<NodeId, NodeId> reach(const Topology& topology, NodeId center) {
  std::map<NodeId, NodeId> above = {{center, center}};
  std::queue<NodeId> open;
  open.push(center);
  while (!open.empty()) {
    const NodeId node = open.front();
    open.pop();
    for (const LinkId link : topology.links_out(node)) {
      const NodeId next = topology.link(link).target;
      if (!above.contains(next) && first_link(topology, next, node).value >= 0) {
        above.emplace(next, node);
        if (is_switch(topology, next)) {
          open.push(next);
        }
      }
    }
  }
  return above;
}

Error unreached(const Topology& topology, NodeId center, std::span<const NodeId> missed) {
  const std::string all = "no switch reaches all ranks through switches alone, by links both ways";
  return {ErrorCode::kInfeasible,
          fmt::format("{}: {} does not reach {}{}", all, topology.node(center).name,
                      topology.node(missed.front()).name,
                      missed.size() == 1 ? "" : fmt::format(" and {} more", missed.size() - 1))};
}

}  // namespace

Result<std::vector<SwitchTree>> SwitchTree::find(const Topology& topology,
                                                 std::span<const NodeId> ranks) {
  std::vector<std::tuple<std::size_t, std::size_t, NodeId, SwitchTree>> found;
  Error error = {ErrorCode::kInfeasible, "the topology has no switch"};
  std::size_t fewest_missed = ranks.size() + 1;
  for (const NodeId center : nodes_of_kind(topology, NodeKind::kSwitch)) {
    const std::map<NodeId, NodeId> above = reach(topology, center);
    std::vector<NodeId> missed;
    std::ranges::copy_if(ranks, std::back_inserter(missed),
                         [&](NodeId rank) { return !above.contains(rank); });
    if (!missed.empty()) {
      error = missed.size() < fewest_missed ? unreached(topology, center, missed) : error;
      fewest_missed = std::min(fewest_missed, missed.size());
      continue;
    }
    SwitchTree tree(topology, center);
    std::size_t longest = 0;
    for (const NodeId rank : ranks) {
      check_interruption();
      std::size_t length = 0;
      for (NodeId node = rank; node != center; node = above.at(node)) {
        tree.above_.emplace(node, above.at(node));
        ++length;
      }
      longest = std::max(longest, length);
    }
    found.emplace_back(longest, tree.above_.size(), center, std::move(tree));
  }
  if (found.empty()) {
    return error;
  }
  std::ranges::sort(found, {}, [](const auto& one) {
    return std::tuple(std::get<0>(one), std::get<1>(one), std::get<2>(one));
  });
  // Groups side by side that could all turn at the same switches are spread over them.
  const auto best = std::ranges::find_if(found, [&](const auto& one) {
    return std::get<0>(one) != std::get<0>(found.front()) ||
           std::get<1>(one) != std::get<1>(found.front());
  });
  if (best != found.begin()) {
    const auto first = ranks.front().value % (best - found.begin());
    std::rotate(found.begin(), found.begin() + first, best);
  }
  std::vector<SwitchTree> trees;
  for (auto& one : found) {
    trees.push_back(std::move(std::get<3>(one)));
  }
  return trees;
}

std::vector<NodeId> SwitchTree::way_up(NodeId node) const {
  std::vector<NodeId> way = {node};
  while (way.back() != center_) {
    way.push_back(above_.at(way.back()));
  }
  return way;
}

std::vector<NodeId> SwitchTree::way(NodeId source, NodeId target) const {
  std::vector<NodeId> up = way_up(source), down = way_up(target);
  while (up.size() > 1 && down.size() > 1 && up[up.size() - 2] == down[down.size() - 2]) {
    up.pop_back();
    down.pop_back();
  }
  up.insert(up.end(), down.rbegin() + 1, down.rend());
  return up;
}

LinkId SwitchTree::link(NodeId source, NodeId target) const {
  const LinkId link = first_link(*topology_, source, target);
  PLEACH_CHECK(link.value >= 0, "the tree has links both ways");
  return link;
}

std::vector<LinkId> SwitchTree::route(NodeId source, NodeId target) const {
  const std::vector<NodeId> nodes = way(source, target);
  std::vector<LinkId> links;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    links.push_back(link(nodes[i - 1], nodes[i]));
  }
  return links;
}

SwitchTree::Stream SwitchTree::stream(std::span<const NodeId> sources,
                                      std::span<const NodeId> targets) const {
  using Edge = std::pair<NodeId, NodeId>;
  const NodeId turn = targets.size() == 1   ? above_.at(targets.front())
                      : sources.size() == 1 ? above_.at(sources.front())
                                            : center_;
  std::set<Edge> up, down;
  std::set<NodeId> passed = {turn};  // on the way up
  const auto add_way = [](std::set<Edge>& edges, const std::vector<NodeId>& nodes) {
    for (std::size_t i = 1; i < nodes.size(); ++i) {
      edges.emplace(nodes[i - 1], nodes[i]);
    }
  };
  for (const NodeId source : sources) {
    const std::vector<NodeId> nodes = way(source, turn);
    passed.insert(nodes.begin() + 1, nodes.end());
    add_way(up, nodes);
  }
  for (const NodeId target : targets) {
    add_way(down, way(turn, target));
  }
  Stream stream;
  std::map<NodeId, int32_t> enter, leave;
  for (const auto& [from, to] : up) {
    stream.hops.push_back({link(from, to), TransferOp::kReduce, 0, 0});
    ++enter[to];
  }
  const auto pass_down = [&](NodeId node) -> uint16_t {
    return node != turn && is_switch(*topology_, node) && passed.contains(node) ? 1 : 0;
  };
  for (const auto& [from, to] : down) {
    stream.hops.push_back({link(from, to), TransferOp::kCopy, pass_down(from), pass_down(to)});
    ++leave[from];
  }
  for (const auto& [node, count] : enter) {
    if (count > 1 && !topology_->node(node).reduces && stream.obstacle.empty()) {
      stream.obstacle = fmt::format("switch {} does not reduce", topology_->node(node).name);
    }
  }
  for (const auto& [node, count] : leave) {
    if (count > 1 && !topology_->node(node).multicasts && stream.obstacle.empty()) {
      stream.obstacle = fmt::format("switch {} does not multicast", topology_->node(node).name);
    }
  }
  return stream;
}

}  // namespace pleach
