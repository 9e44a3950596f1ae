// I/O trees: what an I/O node, or a rank, spreads over a grid line by line, and elsewhere along a
// chain; what it collects takes the same ways backwards.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

constexpr int32_t kChainLimit = 1024;  // leaves; of more, distances are not compared

// One message of a broadcast; a reduce sends it the other way.
struct Edge {
  NodeId parent, child;
  std::vector<NodeId> way = {};  // from parent to child; empty: as the topology routes
  int32_t step = 0;
};

// The rank that an I/O node hangs on; a rank itself.
std::optional<NodeId> entry_of(const Topology& topology, NodeId root) {
  if (topology.node(root).kind == NodeKind::kRank) {
    return root;
  }
  for (const LinkId link : topology.links_out(root)) {
    const NodeId target = topology.link(link).target;
    if (topology.node(target).kind == NodeKind::kRank) {
      return target;
    }
  }
  return std::nullopt;
}

// A grid, and the ways in it out of one of its nodes: along one dimension after the other.
class GridWays {
 public:
  GridWays(std::span<const GridDimension> grid, std::vector<std::size_t> dimensions)
      : grid_(grid), strides_(grid.size(), 1), dimensions_(std::move(dimensions)) {
    for (std::size_t dimension = grid.size() - 1; dimension-- > 0;) {
      strides_[dimension] = strides_[dimension + 1] * grid[dimension + 1].size;
    }
  }

  int32_t coordinate(NodeId node, std::size_t dimension) const {
    return node.value / strides_[dimension] % grid_[dimension].size;
  }
  // All nodes on it, both ends too. Around the shorter way, half-way around towards smaller ones.
  std::vector<NodeId> way(NodeId source, NodeId target) const {
    std::vector<NodeId> nodes = {source};
    for (const std::size_t dimension : dimensions_) {
      const int32_t size = grid_[dimension].size;
      const int32_t goal = coordinate(target, dimension);
      int32_t place = coordinate(source, dimension);
      const int32_t ahead = (goal - place + size) % size;
      const bool is_up = grid_[dimension].wraps ? 2 * ahead < size : goal > place;
      while (place != goal) {
        const int32_t next = (place + (is_up ? 1 : size - 1)) % size;
        nodes.push_back(NodeId{nodes.back().value + (next - place) * strides_[dimension]});
        place = next;
      }
    }
    return nodes;
  }

 private:
  std::span<const GridDimension> grid_;
  std::vector<int32_t> strides_;
  std::vector<std::size_t> dimensions_;  // in which order
};

// The dimension whose face an I/O node is at: its rank's faces in the order of links, north, south,
// west, east, and one for each I/O node there. None inside the grid.
std::optional<std::size_t> face_of(const Topology& topology, NodeId io, NodeId entry) {
  const GridWays ways(topology.grid(), {});
  std::vector<std::size_t> faces;
  for (std::size_t dimension = 0; dimension < topology.grid().size(); ++dimension) {
    const auto& [size, wraps] = topology.grid()[dimension];
    const int32_t place = ways.coordinate(entry, dimension);
    for (const int32_t edge : {0, size - 1}) {
      if (place == edge && !wraps) {
        faces.push_back(dimension);
      }
    }
  }
  std::size_t before = 0;
  for (int32_t index = count_of(topology.rank_nodes()); index < io.value; ++index) {
    const NodeId node{index};
    before +=
        topology.node(node).kind == NodeKind::kIo && entry_of(topology, node) == entry ? 1 : 0;
  }
  return faces.empty() ? std::nullopt : std::optional(faces[before % faces.size()]);
}

// The last dimension first, which is along rows, or the first; or the face's, then the others.
std::vector<std::size_t> dimension_order(const Topology& topology, NodeId root, NodeId entry,
                                         const std::string& first) {
  std::vector<std::size_t> order(topology.grid().size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    order[k] = first == "columns" ? k : order.size() - 1 - k;
  }
  if (first == "face" && root != entry) {
    if (const std::optional<std::size_t> face = face_of(topology, root, entry)) {
      const auto found = std::ranges::find(order, *face);
      std::rotate(order.begin(), found, found + 1);
    }
  }
  return order;
}

// From the member nearest to the root on, all others, each from the last member on its way.
std::vector<Edge> grid_tree(const Topology& topology, const std::vector<NodeId>& members,
                            NodeId root, NodeId entry, const std::string& first) {
  const GridWays ways(topology.grid(), dimension_order(topology, root, entry, first));
  NodeId head = entry;
  std::size_t nearest = std::numeric_limits<std::size_t>::max();
  for (const NodeId member : members) {
    const std::size_t length = ways.way(entry, member).size();
    head = length < nearest ? member : head;
    nearest = std::min(nearest, length);
  }
  std::vector<Edge> edges;
  if (root != entry) {
    std::vector<NodeId> way = ways.way(entry, head);
    way.insert(way.begin(), root);
    edges.push_back({root, head, std::move(way), 0});
  }
  const RankOfNode rank_of(members);
  for (const NodeId member : members) {
    const std::vector<NodeId> way = ways.way(head, member);
    int32_t depth = root == entry ? -1 : 0;  // of the members on the way
    std::size_t last = 0;
    for (std::size_t k = 0; k + 1 < way.size(); ++k) {
      if (rank_of(way[k]) != kNoRank) {
        ++depth;
        last = k;
      }
    }
    if (member != head) {
      edges.push_back(
          {way[last], member, {way.begin() + static_cast<std::ptrdiff_t>(last), way.end()}, depth});
    }
  }
  return edges;
}

// The switch that a node hangs on by its first link; none: it hangs on something else.
std::optional<NodeId> switch_of(const Topology& topology, NodeId node) {
  const auto links = topology.links_out(node);
  const NodeId beside = links.empty() ? node : topology.link(links.front()).target;
  return topology.node(beside).kind == NodeKind::kSwitch ? std::optional(beside) : std::nullopt;
}

// Members that hang on one switch are a leaf, one that hangs on none is its own. By first member.
std::vector<std::vector<NodeId>> leaves_of(const Topology& topology, std::vector<NodeId> members) {
  std::ranges::sort(members);
  std::vector<std::vector<NodeId>> leaves;
  std::map<NodeId, std::size_t> leaf_of;  // by switch
  for (const NodeId member : members) {
    const NodeId name = switch_of(topology, member).value_or(member);
    const auto [leaf, is_new] = leaf_of.try_emplace(name, leaves.size());
    if (is_new) {
      leaves.emplace_back();
    }
    leaves[leaf->second].push_back(member);
  }
  return leaves;
}

// What tells chains that begin in one leaf apart: an I/O node's number among those of its switch, a
// rank's place in its leaf.
std::size_t turn_of(const Topology& topology, std::span<const std::vector<NodeId>> leaves,
                    NodeId root) {
  for (const std::vector<NodeId>& leaf : leaves) {
    if (const auto found = std::ranges::find(leaf, root); found != leaf.end()) {
      return static_cast<std::size_t>(found - leaf.begin());
    }
  }
  std::size_t turn = 0;
  const std::optional<NodeId> own = switch_of(topology, root);
  for (NodeId node{0}; own && node < root; ++node.value) {
    turn += topology.node(node).kind == NodeKind::kIo && switch_of(topology, node) == own ? 1 : 0;
  }
  return turn;
}

// Leaf by leaf, to the nearest that is not there yet, of several the next in order, all the way
// around: what joins leaves is crossed once. In a leaf all the way around from another rank for
// each turn: chains that go at one pace are at different ranks at any time.
std::vector<Edge> chain(const Topology& topology, std::vector<NodeId> members, NodeId root) {
  const std::vector<std::vector<NodeId>> leaves = leaves_of(topology, std::move(members));
  const std::size_t turn = turn_of(topology, leaves, root);
  const auto count = count_of(leaves);
  const auto entry = [&](int32_t leaf) { return leaves[at(leaf)][turn % leaves[at(leaf)].size()]; };
  std::vector<bool> is_done(leaves.size());
  std::vector<Edge> edges;
  Router router(topology);
  int32_t place = -1;
  NodeId last = root;
  for (int32_t number = 0; number < count; ++number) {
    int32_t best = -1, nearest = 0;
    for (int32_t further = 1; further <= count; ++further) {
      const int32_t other = (place + further + count) % count;
      if (is_done[at(other)]) {
        continue;
      }
      const int32_t distance = count > kChainLimit ? 0 : router.distance(last, entry(other));
      if (best < 0 || distance < nearest) {
        best = other;
        nearest = distance;
      }
      if (count > kChainLimit) {
        break;
      }
    }
    place = best;
    is_done[at(place)] = true;
    const std::vector<NodeId>& leaf = leaves[at(place)];
    for (std::size_t k = 0; k < leaf.size(); ++k) {
      const NodeId member = leaf[(turn + k) % leaf.size()];
      if (member != root) {
        edges.push_back({last, member, {}, count_of(edges)});
      }
      last = member;
    }
  }
  return edges;
}

Result<std::vector<LinkId>> links_of(const Topology& topology, std::span<const NodeId> way) {
  std::vector<LinkId> links;
  for (std::size_t k = 1; k < way.size(); ++k) {
    const auto found = std::ranges::find_if(topology.links_out(way[k - 1]), [&](LinkId link) {
      return topology.link(link).target == way[k];
    });
    if (found == topology.links_out(way[k - 1]).end()) {
      return Error{ErrorCode::kInfeasible,
                   fmt::format("no link from {} to {}", topology.node(way[k - 1]).name,
                               topology.node(way[k]).name)};
    }
    links.push_back(*found);
  }
  return links;
}

Result<Schedule> io_tree(const SynthesisRequest& request, const Options& options) {
  const Topology& topology = request.topology;
  const NodeId root = request.participants[request.root.index()];
  std::vector<NodeId> members;  // ranks
  std::ranges::copy_if(request.participants, std::back_inserter(members),
                       [&](NodeId node) { return topology.node(node).kind == NodeKind::kRank; });
  const std::optional<NodeId> entry = entry_of(topology, root);
  const std::vector<Edge> edges =
      topology.grid().empty() || !entry
          ? chain(topology, std::move(members), root)
          : grid_tree(topology, members, root, *entry, options.text("first"));
  int32_t step_count = 0;
  for (const Edge& edge : edges) {
    step_count = std::max(step_count, edge.step + 1);
  }
  const bool is_broadcast = request.collective == CollectiveKind::kBroadcast;
  ScheduleBuilder builder(request, request.collective, 1);
  for (const Edge& edge : edges) {
    const NodeId source = is_broadcast ? edge.parent : edge.child;
    const NodeId target = is_broadcast ? edge.child : edge.parent;
    int32_t route = kNoRoute;
    if (edge.way.empty()) {
      route = builder.route(source, target);
    } else {
      std::vector<NodeId> way = edge.way;
      if (!is_broadcast) {
        std::ranges::reverse(way);
      }
      PLEACH_ASSIGN(links, links_of(topology, way));
      route = builder.route(links);
    }
    builder.add({.step = is_broadcast ? edge.step : step_count - 1 - edge.step,
                 .op = is_broadcast ? TransferOp::kCopy : TransferOp::kReduce},
                source, target, route);
  }
  return std::move(builder).finish({step_count});
}

}  // namespace

extern const Algorithm kIoTree = {
    .name = "io_tree",
    .summary = "over a grid line by line, from the face that the root is at; elsewhere a chain",
    .source =
        "FRED, ISCA 2025 (its mesh, with I/O controllers around it: one-to-many, along the row or "
        "column first, then all others)",
    .collectives = {CollectiveKind::kBroadcast, CollectiveKind::kReduce},
    .options = {{.name = "first",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "face",
                 .summary = "on a grid: rows or columns, then the others; face: away from the face "
                            "that an I/O node is at, of a rank rows",
                 .allowed = {"face", "rows", "columns"}}},
    .create = &io_tree,
};

}  // namespace pleach
