// MultiTree: one spanning tree per rank, grown together so that they share the links step by step.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/synthesis/spanning_trees.h"

namespace pleach {
namespace {

// The participants as vertices, in ascending node order: the trees do not depend on how ranks are
// numbered. Vertex v is rank ranks[v]; between vertices is what passes traffic through and takes no
// part. All ranks of a topology reach each other, so vertices do too.
struct Network {
  const SynthesisRequest& request;
  std::vector<int32_t> ranks;
  TreeGraph graph;

  NodeId node(int32_t vertex) const { return request.participants[at(ranks[at(vertex)])]; }
  int32_t vertex_count() const { return count_of(ranks); }
};

Network make_network(const SynthesisRequest& request) {
  Network network{request, std::vector<int32_t>(request.participants.size()), {}};
  std::iota(network.ranks.begin(), network.ranks.end(), 0);
  std::ranges::sort(network.ranks, {},
                    [&](int32_t rank) { return request.participants[at(rank)]; });
  std::vector<int32_t> number_of(request.topology.nodes().size(), -1);
  std::vector<NodeId> nodes;
  const auto add = [&](NodeId node) {
    number_of[node.index()] = count_of(nodes);
    nodes.push_back(node);
  };
  for (int32_t vertex = 0; vertex < network.vertex_count(); ++vertex) {
    add(network.node(vertex));
  }
  for (int32_t index = 0; index < count_of(request.topology.nodes()); ++index) {
    const NodeId node{index};
    if (number_of[node.index()] < 0 && passes_through(request.topology.node(node))) {
      add(node);
    }
  }
  TreeGraph& graph = network.graph;
  graph.vertex_count = network.vertex_count();
  graph.link_count = count_of(request.topology.links());
  graph.first = {0};
  for (const NodeId node : nodes) {
    for (const LinkId link : request.topology.links_out(node)) {
      const int32_t target = number_of[request.topology.link(link).target.index()];
      if (target >= 0) {
        graph.arcs.push_back({target, link});
      }
    }
    graph.first.push_back(count_of(graph.arcs));
  }
  return network;
}

// The graph with all arcs turned round; arcs into a node stay in ascending order of their source.
TreeGraph transposed(const TreeGraph& graph) {
  TreeGraph result;
  result.vertex_count = graph.vertex_count;
  result.link_count = graph.link_count;
  result.first.assign(graph.first.size(), 0);
  for (const TreeGraph::Arc& arc : graph.arcs) {
    ++result.first[at(arc.target) + 1];
  }
  std::partial_sum(result.first.begin(), result.first.end(), result.first.begin());
  std::vector<int32_t> next = result.first;
  result.arcs.resize(graph.arcs.size());
  for (int32_t node = 0; node < graph.node_count(); ++node) {
    for (const TreeGraph::Arc& arc : graph.arcs_of(node)) {
      result.arcs[at(next[at(arc.target)]++)] = {node, arc.link};
    }
  }
  return result;
}

// By link the one in the opposite direction, the k-th of parallel links with the k-th; none when
// some link has no such partner.
std::optional<std::vector<LinkId>> opposite_links(const TreeGraph& graph) {
  struct Ends {
    int32_t low, high, is_down;
    LinkId link;
  };
  std::vector<Ends> all;
  for (int32_t source = 0; source < graph.node_count(); ++source) {
    for (const TreeGraph::Arc& arc : graph.arcs_of(source)) {
      all.push_back({std::min(source, arc.target), std::max(source, arc.target),
                     source > arc.target ? 1 : 0, arc.link});
    }
  }
  std::ranges::sort(all, {}, [](const Ends& ends) {
    return std::tuple(ends.low, ends.high, ends.is_down, ends.link);
  });
  std::vector<LinkId> opposite(at(graph.link_count));
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    std::size_t up_count = 0;
    for (end = begin;
         end < all.size() && all[end].low == all[begin].low && all[end].high == all[begin].high;
         ++end) {
      up_count += all[end].is_down == 0 ? 1 : 0;
    }
    if (2 * up_count != end - begin) {
      return std::nullopt;
    }
    for (std::size_t k = begin; k < begin + up_count; ++k) {
      opposite[all[k].link.index()] = all[k + up_count].link;
      opposite[all[k + up_count].link.index()] = all[k].link;
    }
  }
  return opposite;
}

// How eagerly a root's tree is served on a mesh: the distance to the farthest corner, where the
// second term is taken from the corner's own row as in the authors' simulator. Elsewhere equal.
int32_t priority(std::span<const GridDimension> grid, NodeId root) {
  if (grid.size() != 2 || grid[0].wraps || grid[1].wraps) {
    return 0;
  }
  const int32_t last_row = grid[0].size - 1, last_column = grid[1].size - 1;
  const int32_t row = root.value / grid[1].size;
  int32_t most = 0;
  for (const int32_t corner_row : {0, last_row}) {
    for (const int32_t corner_column : {0, last_column}) {
      most = std::max(most, std::abs(row - corner_row) + std::abs(corner_row - corner_column));
    }
  }
  return most;
}

TreeOptions tree_options(const Network& network, const Options& options) {
  TreeOptions result;
  result.ends_with_last_tree = options.text("step_rule") == "published";
  result.interface_limit = static_cast<int32_t>(options.integer("interfaces"));
  result.first_order.resize(at(network.vertex_count()));
  std::iota(result.first_order.begin(), result.first_order.end(), 0);
  result.later_order = result.first_order;
  if (options.text("tree_order") == "priority") {
    std::ranges::sort(result.later_order, std::greater<>{}, [&](int32_t vertex) {
      return std::pair(priority(network.request.topology.grid(), network.node(vertex)), vertex);
    });
  }
  return result;
}

// Parents send their tree's chunk to children.
Result<Schedule> all_gather(const Network& network, const Trees& trees) {
  ScheduleBuilder builder(network.request, CollectiveKind::kAllGather, network.vertex_count());
  builder.reserve(static_cast<int64_t>(trees.edges.size()));
  for (const TreeEdge& edge : trees.edges) {
    builder.add({.first_chunk = network.ranks[at(edge.tree)], .step = edge.step},
                network.node(edge.parent), network.node(edge.child),
                builder.route(trees.way(edge)));
  }
  return std::move(builder).finish({trees.step_count});
}

// Children send their partial sums to parents, in the opposite order of steps.
//   link_of  by a way's link, the one that its reversal takes
Result<Schedule> reduce_scatter(const Network& network, const Trees& trees,
                                const std::vector<LinkId>& link_of) {
  ScheduleBuilder builder(network.request, CollectiveKind::kReduceScatter, network.vertex_count());
  builder.reserve(static_cast<int64_t>(trees.edges.size()));
  std::vector<LinkId> way;
  for (auto edge = trees.edges.rbegin(); edge != trees.edges.rend(); ++edge) {
    way.clear();
    for (const LinkId link : trees.way(*edge)) {
      way.push_back(link_of[link.index()]);
    }
    std::ranges::reverse(way);
    builder.add({.first_chunk = network.ranks[at(edge->tree)],
                 .step = trees.step_count - 1 - edge->step,
                 .op = TransferOp::kReduce},
                network.node(edge->child), network.node(edge->parent), builder.route(way));
  }
  return std::move(builder).finish({trees.step_count});
}

Result<Schedule> multitree(const SynthesisRequest& request, const Options& options) {
  const auto rank_count = static_cast<int64_t>(request.participants.size());
  PLEACH_TRY(check_size(2 * rank_count * (rank_count - 1), 0));
  const Network network = make_network(request);
  const TreeOptions growth = tree_options(network, options);
  const Trees outward = grow_trees(network.graph, growth);
  if (request.collective == CollectiveKind::kAllGather) {
    return all_gather(network, outward);
  }
  Result<Schedule> first = Error{ErrorCode::kInfeasible, ""};
  if (const auto opposite = opposite_links(network.graph)) {
    first = reduce_scatter(network, outward, *opposite);
  } else {  // some link has no opposite: trees of their own, grown against the links
    std::vector<LinkId> same;
    for (int32_t link = 0; link < network.graph.link_count; ++link) {
      same.push_back({link});
    }
    first = reduce_scatter(network, grow_trees(transposed(network.graph), growth), same);
  }
  if (!first || request.collective == CollectiveKind::kReduceScatter) {
    return first;
  }
  PLEACH_ASSIGN(second, all_gather(network, outward));
  return sequence(*first, second, CollectiveKind::kAllReduce);
}

}  // namespace

extern const Algorithm kMultitree = {
    .name = "multitree",
    .summary = "a spanning tree per rank, grown together so that every link is busy",
    .source = "Huang et al., ISCA 2021 (MultiTree), Algorithm 1",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather},
    .options = {{.name = "step_rule",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "complete",
                 .summary = "a step ends after a round in which no tree added an edge, or as "
                            "published when the last tree added none",
                 .allowed = {"complete", "published"}},
                {.name = "interfaces",
                 .default_value = "0",
                 .summary = "sends, and receives, of a node in one step; 0: as many as links"},
                {.name = "tree_order",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "priority",
                 .summary = "turns after the first round: by distance from the corners, last root "
                            "first, or by index",
                 .allowed = {"priority", "index"}}},
    .create = &multitree,
};

}  // namespace pleach
