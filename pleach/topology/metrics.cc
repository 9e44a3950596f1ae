#include "pleach/topology/metrics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/link_tree.h"
#include "pleach/topology/max_flow.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {
namespace {

constexpr std::size_t kEnumerationLimit = 14;                 // ranks; 1,716 halves
constexpr std::size_t kFlowLinkLimit = std::size_t{1} << 16;  // more: no max-flow
constexpr int64_t kWalkLimit = int64_t{1} << 26;              // links looked at

// Cuts the ranks in two and lets the other nodes fall where the cut is narrowest.
class Halves {
 public:
  explicit Halves(const Topology& topology) : topology_(topology) {
    carries_.reserve(topology.nodes().size());
    for (const Node& node : topology.nodes()) {
      carries_.push_back(!hangs_on(node));
    }
    const bool has_relays = std::ssize(topology.rank_nodes()) < std::ranges::count(carries_, true);
    if (has_relays) {
      tree_ = link_tree(topology, carries_);
    }
    if (has_relays && !tree_ && topology.links().size() <= kFlowLinkLimit) {
      make_graph();
    }
  }

  // Whether cuts are narrowest ones for sure.
  bool are_exact() const { return is_exact_; }
  // in_first is by rank: the i-th rank node. The narrower of both ways [bytes/s].
  int64_t cut(const std::vector<bool>& in_first) {
    if (tree_) {
      return std::min(tree_cut(in_first, tree_->up, tree_->down),
                      tree_cut(in_first, tree_->down, tree_->up));
    }
    if (graph_) {
      std::vector<bool> in_second = in_first;
      in_second.flip();
      return std::min(flow_cut(in_first), flow_cut(in_second));
    }
    return plain_cut(in_first);
  }

 private:
  void make_graph() {
    std::vector<int64_t> bandwidths;
    for (const Link& link : topology_.links()) {
      bandwidths.push_back(link.bandwidth_bytes_per_s);
    }
    const auto rank_count = static_cast<int64_t>(topology_.rank_nodes().size());
    const auto node_count = count_of(topology_.nodes());
    unit_ = capacity_unit(bandwidths, rank_count + 2);
    is_exact_ = are_multiples(bandwidths, unit_);
    std::vector<FlowArc> arcs;
    for (const Link& link : topology_.links()) {
      if (!carries_[link.source.index()] || !carries_[link.target.index()]) {
        continue;
      }
      const int64_t units = (link.bandwidth_bytes_per_s - 1) / unit_ + 1;
      arcs.push_back({link.source.value, link.target.value, units});
      unlimited_ += units;
    }
    first_rank_arc_ = arcs.size();
    for (const NodeId rank : topology_.rank_nodes()) {
      arcs.push_back({node_count, rank.value, 0});
      arcs.push_back({rank.value, node_count + 1, 0});
    }
    graph_.emplace(node_count + 2, arcs);
  }

  int64_t flow_cut(const std::vector<bool>& in_first) {
    const auto node_count = count_of(topology_.nodes());
    for (std::size_t rank = 0; rank < in_first.size(); ++rank) {
      const std::size_t arc = first_rank_arc_ + 2 * rank;
      graph_->set_capacity(arc, in_first[rank] ? unlimited_ : 0);
      graph_->set_capacity(arc + 1, in_first[rank] ? 0 : unlimited_);
    }
    return width(graph_->between(node_count, node_count + 1).source_side).first;
  }

  // The narrowest cut of a tree, from the first half to the second: of what is below each node,
  // with it on either side. `up` is that way where the node is on the first side.
  int64_t tree_cut(const std::vector<bool>& in_first, const std::vector<int64_t>& up,
                   const std::vector<int64_t>& down) const {
    using Sides = std::array<__int128, 2>;  // in the first half, in the second
    constexpr __int128 kNever = __int128{1} << 100;
    std::vector<Sides> least(topology_.nodes().size(), {0, 0});
    for (std::size_t rank = 0; rank < in_first.size(); ++rank) {
      least[topology_.rank_nodes()[rank].index()][in_first[rank] ? 1 : 0] = kNever;
    }
    for (std::size_t next = tree_->order.size(); next-- > 1;) {
      const auto node = at(tree_->order[next]);
      const auto& [first, second] = least[node];
      Sides& above = least[at(tree_->above[node])];
      above[0] += std::min(first, second + down[node]);
      above[1] += std::min(second, first + up[node]);
    }
    const Sides& all = least[at(tree_->order.front())];
    constexpr __int128 kMost = int64_t{1} << 62;
    return static_cast<int64_t>(std::min({all[0], all[1], kMost}));
  }

  int64_t plain_cut(const std::vector<bool>& in_first) const {
    std::vector<bool> side(topology_.nodes().size(), true);
    for (std::size_t rank = 0; rank < in_first.size(); ++rank) {
      side[topology_.rank_nodes()[rank].index()] = in_first[rank];
    }
    const auto [out, in] = width(side);
    return std::min(out, in);
  }

  // Bytes per second out of one side, and into it.
  std::pair<int64_t, int64_t> width(const std::vector<bool>& side) const {
    __int128 out = 0;
    __int128 in = 0;
    for (const Link& link : topology_.links()) {
      if (side[link.source.index()] != side[link.target.index()] && carries_[link.source.index()] &&
          carries_[link.target.index()]) {
        (side[link.source.index()] ? out : in) += link.bandwidth_bytes_per_s;
      }
    }
    constexpr __int128 kMost = int64_t{1} << 62;
    return {static_cast<int64_t>(std::min(out, kMost)), static_cast<int64_t>(std::min(in, kMost))};
  }

  const Topology& topology_;
  std::vector<bool> carries_;  // by node: ranks' traffic may pass it, or begins or ends there
  std::optional<LinkTree> tree_;
  std::optional<FlowGraph> graph_;
  int64_t unit_ = 1;
  bool is_exact_ = true;
  int64_t unlimited_ = 0;  // capacity that no cut needs to cross
  std::size_t first_rank_arc_ = 0;
};

int64_t enumerate_halves(Halves& halves, std::size_t rank_count) {
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  std::vector<bool> in_first(rank_count);
  for (uint32_t set = 0; set < (uint32_t{1} << (rank_count - 1)); ++set) {
    check_interruption();
    // The last rank stays out; of an odd number, the halves have both sizes.
    const auto size = at(std::popcount(set));
    if (size != rank_count / 2 && size != (rank_count + 1) / 2) {
      continue;
    }
    for (std::size_t rank = 0; rank < rank_count; ++rank) {
      in_first[rank] = (set >> rank & 1) != 0;
    }
    narrowest = std::min(narrowest, halves.cut(in_first));
  }
  return narrowest;
}

// The dimension of a grid in which ranks `stride` apart are neighbours.
struct Axis {
  std::size_t stride = 1;
  std::size_t size = 1;
};

std::vector<Axis> axes_of(const Topology& topology) {
  std::vector<Axis> axes;
  std::size_t stride = topology.rank_nodes().size();
  for (const GridDimension& dimension : topology.grid()) {
    stride /= at(dimension.size);
    axes.push_back({stride, at(dimension.size)});
  }
  return axes;
}

void sort_along(const Axis& axis, std::vector<std::size_t>& ranks) {
  std::ranges::stable_sort(ranks, {},
                           [&](std::size_t rank) { return rank / axis.stride % axis.size; });
}

// Orders of the ranks whose first halves are tried: their own, that of each coordinate, and that of
// all coordinates, of the longest dimension first.
std::vector<std::vector<std::size_t>> orders_to_try(const Topology& topology) {
  std::vector<std::size_t> ranks(topology.rank_nodes().size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::vector<std::vector<std::size_t>> orders = {ranks};
  std::vector<Axis> axes = axes_of(topology);
  for (const Axis& axis : axes) {
    sort_along(axis, orders.emplace_back(ranks));
  }
  std::ranges::stable_sort(axes, {}, &Axis::size);
  for (const Axis& axis : axes) {
    sort_along(axis, ranks);
  }
  orders.push_back(ranks);
  if (axes.empty()) {
    const auto quarter = static_cast<std::ptrdiff_t>(ranks.size() / 4);
    std::rotate(ranks.begin() + quarter, ranks.begin() + 2 * quarter, ranks.begin() + 3 * quarter);
    orders.push_back(ranks);
  }
  return orders;
}

// Bounds from below, by flows between all ranks of which those from one half to the other, a
// product of sizes, must cross any cut. 0 where the topology is of another kind.

__extension__ using Wide = __int128;  // bandwidth × pairs

Wide crossing_pairs(const Topology& topology) {
  const auto rank_count = static_cast<int64_t>(topology.rank_nodes().size());
  return Wide{rank_count / 2} * (rank_count - rank_count / 2);
}

// Of the links along each dimension of a grid.
std::vector<int64_t> least_bandwidths(const Topology& topology) {
  const std::vector<Axis> axes = axes_of(topology);
  std::vector<int64_t> least(axes.size(), INT64_MAX);
  for (const Link& link : topology.links()) {
    if (hangs_on(topology.node(link.source)) || hangs_on(topology.node(link.target))) {
      continue;
    }
    for (std::size_t index = 0; index < axes.size(); ++index) {
      const auto [stride, size] = axes[index];
      if (link.source.index() / stride % size != link.target.index() / stride % size) {
        least[index] = std::min(least[index], link.bandwidth_bytes_per_s);
      }
    }
  }
  return least;
}

// On a grid every rank sends to every other, dimension by dimension, both ways round where that is
// equally far. A line of k ranks then has at most k²/4 pairs over one of its links, a cycle k²/8,
// as many times as the grid has lines along the other dimensions.
//   source  the congestion argument of Leighton, Introduction to Parallel Algorithms and
//           Architectures, 1992, sec. 1.9
int64_t least_cut_by_pairs(const Topology& topology, std::span<const int64_t> least_bandwidth) {
  const auto rank_count = static_cast<int64_t>(topology.rank_nodes().size());
  int64_t least = INT64_MAX;
  for (std::size_t dimension = 0; dimension < least_bandwidth.size(); ++dimension) {
    const auto [size, wraps] = topology.grid()[dimension];
    const int64_t squared = int64_t{size} * size;
    const bool is_odd = size % 2 != 0;
    const int64_t pairs_8 = wraps && size > 2 ? squared - (is_odd ? 1 : 0)
                                              : 2 * (squared - (is_odd ? 1 : 0));  // times 8
    if (size > 1) {
      const Wide all = crossing_pairs(topology) * least_bandwidth[dimension] * 8;
      const Wide of_link = Wide{pairs_8} * (rank_count / size);
      least = static_cast<int64_t>(std::min<Wide>(least, (all + of_link - 1) / of_link));
    }
  }
  return least;
}

// The first half of a grid in the order of coordinates, the longest dimension first, cuts all lines
// along that one; where it is odd, also the lines of its middle along the next one, and so on to
// the first that is even. Where every pair of ranks of a line of k counts 1/k² (of an odd one
// 1/(k²−1)), no half has less between it and the rest. At most k²/4 of these pairs (k²−1 for odd k)
// lie on either side of one link of a line, k²/8 of a cycle's, both ways round: so no cut has fewer
// lines.
//   source  Azizoglu & Egecioglu, Extremal sets minimizing dimension-normalized boundary in Hamming
//           graphs, SIAM J. Discrete Math. 17, 2003; with cycles: Arjona Aroca & Fernandez Anta,
//           Bisection (band)width of product networks, TAMC 2012
int64_t least_cut_by_lines(const Topology& topology, std::span<const int64_t> least_bandwidth) {
  std::vector<int64_t> sizes;
  int64_t least_of_line = INT64_MAX;
  for (std::size_t dimension = 0; dimension < least_bandwidth.size(); ++dimension) {
    const auto [size, wraps] = topology.grid()[dimension];
    if (size > 1) {
      sizes.push_back(size);
      const Wide of_line = Wide{least_bandwidth[dimension]} * (wraps && size > 2 ? 2 : 1);
      least_of_line = static_cast<int64_t>(std::min<Wide>(least_of_line, of_line));
    }
  }
  std::ranges::sort(sizes, std::greater());
  auto lines = static_cast<int64_t>(topology.rank_nodes().size());
  int64_t cut_lines = 0;
  for (const int64_t size : sizes) {
    lines /= size;
    cut_lines += lines;
    if (size % 2 == 0) {
      break;
    }
  }
  return static_cast<int64_t>(std::min<Wide>(Wide{least_of_line} * cut_lines, INT64_MAX));
}

int64_t least_cut_of_grid(const Topology& topology) {
  const std::vector<int64_t> least_bandwidth = least_bandwidths(topology);
  return std::max(least_cut_by_pairs(topology, least_bandwidth),
                  least_cut_by_lines(topology, least_bandwidth));
}

// The least bandwidth between a node and any other rank, in either direction; 0: some has no link.
int64_t least_to_all_ranks(const Topology& topology, NodeId node) {
  int64_t least = INT64_MAX;
  for (const bool outward : {true, false}) {
    std::vector<int64_t> bandwidth(topology.nodes().size());
    for (const LinkId id : outward ? topology.links_out(node) : topology.links_in(node)) {
      const Link& link = topology.link(id);
      bandwidth[(outward ? link.target : link.source).index()] += link.bandwidth_bytes_per_s;
    }
    for (const NodeId rank : topology.rank_nodes()) {
      check_interruption();
      least = rank == node ? least : std::min(least, bandwidth[rank.index()]);
    }
  }
  return least;
}

// Between every two ranks what their own links carry, and through every switch that all ranks are
// attached to what they have to pair up with.
int64_t least_cut_of_neighbours(const Topology& topology) {
  int64_t direct = INT64_MAX;
  for (const NodeId rank : topology.rank_nodes()) {
    direct = direct == 0 ? 0 : std::min(direct, least_to_all_ranks(topology, rank));
  }
  Wide least = crossing_pairs(topology) * direct;
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kSwitch)) {
    if (topology.links_out(node).size() >= topology.rank_nodes().size()) {
      least += Wide{least_to_all_ranks(topology, node)} *
               static_cast<int64_t>(topology.rank_nodes().size() / 2);
    }
  }
  return static_cast<int64_t>(std::min<Wide>(least, INT64_MAX));
}

int64_t least_cut(const Topology& topology) {
  return topology.grid().empty() ? least_cut_of_neighbours(topology) : least_cut_of_grid(topology);
}

struct Farthest {
  NodeId rank;
  int32_t link_count = 0;
};

// The most links from `source` to any rank; adds the links looked at to `work`.
Farthest eccentricity(const Topology& topology, NodeId source, std::vector<int32_t>& distance,
                      int64_t& work) {
  constexpr int32_t kUnseen = -1;
  std::vector<NodeId> queue = {source};
  distance[source.index()] = 0;
  std::vector<NodeId> seen = {source};
  Farthest farthest = {source, 0};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    check_interruption();
    const std::span<const LinkId> links = topology.links_out(queue[at]);
    work += static_cast<int64_t>(links.size());
    for (const LinkId link : links) {
      const NodeId next = topology.link(link).target;
      if (distance[next.index()] != kUnseen) {
        continue;
      }
      distance[next.index()] = distance[queue[at].index()] + 1;
      seen.push_back(next);
      if (topology.node(next).kind == NodeKind::kRank) {
        farthest = {next, distance[next.index()]};
      }
      if (passes_through(topology.node(next))) {
        queue.push_back(next);
      }
    }
  }
  for (const NodeId node : seen) {
    distance[node.index()] = kUnseen;
  }
  return farthest;
}

// That all links of a node lead to and come from; −1: there is none, or several.
NodeId one_neighbour(const Topology& topology, NodeId node) {
  NodeId neighbour;
  for (const LinkId id : topology.links_out(node)) {
    const NodeId target = topology.link(id).target;
    if (neighbour.value >= 0 && target != neighbour) {
      return {};
    }
    neighbour = target;
  }
  const bool is_one = std::ranges::all_of(
      topology.links_in(node), [&](LinkId id) { return topology.link(id).source == neighbour; });
  return is_one ? neighbour : NodeId{};
}

// Ranks of which one is an end of a longest way. From those with one neighbour, the same, all
// others are as far. On a tree, what is farthest from any rank is such an end.
//   source  Handler, Minimax location of a facility in an undirected tree graph, 1973
std::vector<NodeId> sources_of_walks(const Topology& topology) {
  std::vector<bool> included;
  for (const Node& node : topology.nodes()) {
    included.push_back(!hangs_on(node));
  }
  if (link_tree(topology, included)) {
    int64_t work = 0;
    std::vector<int32_t> distance(topology.nodes().size(), -1);
    return {eccentricity(topology, topology.rank_nodes().front(), distance, work).rank};
  }
  std::vector<NodeId> sources;
  std::vector<bool> is_known(topology.nodes().size(), false);
  for (const NodeId rank : topology.rank_nodes()) {
    const NodeId neighbour = one_neighbour(topology, rank);
    if (neighbour.value < 0 || !is_known[neighbour.index()]) {
      sources.push_back(rank);
    }
    if (neighbour.value >= 0) {
      is_known[neighbour.index()] = true;
    }
  }
  return sources;
}

}  // namespace

Bisection bisection(const Topology& topology) {
  const std::size_t rank_count = topology.rank_nodes().size();
  if (rank_count < 2) {
    return {0, true};
  }
  Halves halves(topology);
  if (rank_count <= kEnumerationLimit) {
    const int64_t narrowest = enumerate_halves(halves, rank_count);
    return {narrowest, halves.are_exact()};
  }
  int64_t narrowest = std::numeric_limits<int64_t>::max();
  for (const std::vector<std::size_t>& order : orders_to_try(topology)) {
    std::vector<bool> in_first(rank_count, false);
    for (std::size_t at = 0; at < rank_count / 2; ++at) {
      in_first[order[at]] = true;
    }
    narrowest = std::min(narrowest, halves.cut(in_first));
  }
  return {narrowest, narrowest <= least_cut(topology)};
}

bool messages_are_free(const Topology& topology) {
  return topology.framing().header_bytes == 0 &&
         std::ranges::all_of(topology.rank_nodes(),
                             [&](NodeId rank) { return topology.node(rank).overhead_ps == 0; });
}

Diameter diameter(const Topology& topology) {
  Diameter result;
  if (!topology.grid().empty()) {
    for (const auto& [size, wraps] : topology.grid()) {
      result.link_count += wraps ? size / 2 : size - 1;
    }
    return result;
  }
  int64_t work = 0;
  std::vector<int32_t> distance(topology.nodes().size(), -1);
  for (const NodeId source : sources_of_walks(topology)) {
    if (work > kWalkLimit) {
      result.exact = false;
      break;
    }
    result.link_count =
        std::max(result.link_count, eccentricity(topology, source, distance, work).link_count);
  }
  return result;
}

}  // namespace pleach
