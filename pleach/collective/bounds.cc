#include "pleach/collective/bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/collective/cut_bounds.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/collective/stream_tree.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/max_flow.h"

namespace pleach {
namespace {

constexpr int32_t kNone = -1;
constexpr std::size_t kFlowLinkLimit = std::size_t{1} << 20;  // more: no flows at all
constexpr std::size_t kFlowNodeLimit = 8192;                  // more: no cuts of the whole graph
constexpr int64_t kFlowWorkLimit = int64_t{1} << 35;          // links² × max-flows
constexpr int64_t kWalkLimit = int64_t{1} << 26;              // links looked at for distances
constexpr std::size_t kThresholdLimit = 16;                   // bandwidths that split into groups
constexpr std::size_t kNamedMembers = 8;                      // of a cut

// What makes the nodes of a network alike. All links have one bandwidth, else none of these holds.
struct Likeness {
  bool grid = false;    // all nodes take part in a grid
  bool torus = false;   // such a grid, all dimensions wrapping
  bool clique = false;  // a link from each participant to each
  bool star = false;    // a cable from each participant to the one relay

  // Whether a symmetry takes any participant to any other.
  bool transitive() const { return torus || clique || star; }
  // Whether cuts around single ranks are known to be the narrowest ones: the edge connectivity of
  // grids, vertex-transitive graphs and cliques is their least degree (Mader 1971; Xu and Yang,
  // Edge-connectivity of Cartesian product graphs, 2006), and every larger cut of a star is wider.
  bool single_cuts_decide() const { return grid || clique || star; }
};

// The part of a topology that can carry the collective. Vertices are the participants (which store
// and forward) and the nodes that traffic may pass through.
struct Network {
  const Topology& topology;
  CollectiveKind collective;
  std::vector<NodeId> participants;
  Rank root;
  RankOfNode rank_of = {};
  std::vector<bool> included = {};  // by node
  std::vector<LinkId> links = {};   // between included nodes
  int32_t relay_count = 0;
  bool in_network = false;  // a switch reduces or multicasts
  Likeness likeness = {};

  double rank_count() const { return static_cast<double>(participants.size()); }
};

double bandwidth_of(const Topology& topology, LinkId link) {
  return static_cast<double>(topology.link(link).bandwidth_bytes_per_s);
}

Status number_participants(Network& network) {
  const std::size_t node_count = network.topology.nodes().size();
  network.rank_of = RankOfNode(network.participants, node_count);
  for (int32_t rank = 0; rank < count_of(network.participants); ++rank) {
    const NodeId node = network.participants[at(rank)];
    if (node.value < 0 || node.index() >= node_count) {
      return invalid(fmt::format("participant {} is no node of topology {}", node.value,
                                 pleach::quoted(network.topology.name())));
    }
    if (network.rank_of(node) != rank) {
      return invalid(fmt::format("node {} takes part twice", node.value));
    }
  }
  if (network.participants.size() < 2) {
    return invalid(fmt::format("{} participant of topology {}: a bound needs at least two",
                               network.participants.size(),
                               pleach::quoted(network.topology.name())));
  }
  if (network.root.value < 0 || network.root.index() >= network.participants.size()) {
    return invalid(fmt::format("root {} is outside 0 to {}", network.root.value,
                               network.participants.size() - 1));
  }
  return ok();
}

// Whether every two included nodes have exactly one link each way.
bool is_clique(const Network& network) {
  const std::size_t count = network.participants.size();
  if (network.relay_count > 0 || network.links.size() != count * (count - 1)) {
    return false;
  }
  std::vector<int32_t> seen(network.topology.nodes().size(), kNone);
  for (const NodeId node : network.participants) {
    for (const LinkId link : network.topology.links_out(node)) {
      const NodeId target = network.topology.link(link).target;
      if (network.included[target.index()] &&
          std::exchange(seen[target.index()], node.value) == node.value) {
        return false;
      }
    }
  }
  return true;
}

// Whether every participant has one link to the only relay, one from it, and no other.
bool is_star(const Network& network) {
  if (network.relay_count != 1 || network.links.size() != 2 * network.participants.size()) {
    return false;
  }
  std::vector<int32_t> out(network.topology.nodes().size(), 0);
  for (const LinkId id : network.links) {
    const Link& link = network.topology.link(id);
    const bool up = network.rank_of(link.source) != kNoRank;
    const bool down = network.rank_of(link.target) != kNoRank;
    if (up == down) {
      return false;
    }
    out[up ? link.source.index() : link.target.index()] += up ? 1 : 2;
  }
  return std::ranges::all_of(network.participants,
                             [&](NodeId node) { return out[node.index()] == 3; });
}

Likeness find_likeness(const Network& network) {
  const Topology& topology = network.topology;
  const bool uniform = std::ranges::all_of(network.links, [&](LinkId link) {
    return topology.link(link).bandwidth_bytes_per_s ==
           topology.link(network.links.front()).bandwidth_bytes_per_s;
  });
  if (!uniform) {
    return {};
  }
  const bool everyone = network.participants.size() == topology.nodes().size();
  const bool grid = everyone && is_bare_grid(topology);
  const bool wraps = std::ranges::all_of(topology.grid(), [](const GridDimension& dimension) {
    return dimension.wraps || dimension.size <= 2;
  });
  return {
      .grid = grid, .torus = grid && wraps, .clique = is_clique(network), .star = is_star(network)};
}

Result<Network> make_network(const Topology& topology, const BoundRequest& request) {
  Network network{topology, request.collective, {}, request.root};
  const std::span<const NodeId> participants =
      request.participants.empty() ? topology.rank_nodes() : request.participants;
  network.participants.assign(participants.begin(), participants.end());
  PLEACH_TRY(number_participants(network));
  for (int32_t node = 0; node < count_of(topology.nodes()); ++node) {
    const Node& properties = topology.node(NodeId{node});
    const bool is_participant = network.rank_of(NodeId{node}) != kNoRank;
    network.included.push_back(is_participant || passes_through(properties));
    network.relay_count += network.included.back() && !is_participant ? 1 : 0;
    network.in_network = network.in_network || properties.reduces || properties.multicasts;
  }
  for (std::size_t index = 0; index < topology.links().size(); ++index) {
    const Link& link = topology.links()[index];
    if (network.included[link.source.index()] && network.included[link.target.index()]) {
      network.links.push_back(LinkId{static_cast<int32_t>(index)});
    }
  }
  network.likeness = find_likeness(network);
  return network;
}

// Links from `start` to each node, or to it when `backwards`; adds the links looked at to `work`.
std::vector<int32_t> distances(const Network& network, NodeId start, bool backwards,
                               int64_t& work) {
  const Topology& topology = network.topology;
  std::vector<int32_t> distance(topology.nodes().size(), kNone);
  distance[start.index()] = 0;
  std::vector<NodeId> queue = {start};
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const NodeId node = queue[at];
    const auto links = backwards ? topology.links_in(node) : topology.links_out(node);
    work += static_cast<int64_t>(links.size());
    for (const LinkId id : links) {
      const Link& link = topology.link(id);
      const NodeId next = backwards ? link.source : link.target;
      if (network.included[next.index()] && distance[next.index()] == kNone) {
        distance[next.index()] = distance[node.index()] + 1;
        queue.push_back(next);
      }
    }
  }
  return distance;
}

Status check_connected(const Network& network) {
  const NodeId first = network.participants.front();
  for (const bool backwards : {false, true}) {
    int64_t work = 0;
    const std::vector<int32_t> distance = distances(network, first, backwards, work);
    for (const NodeId node : network.participants) {
      if (distance[node.index()] == kNone) {
        const auto& [source, target] = backwards ? std::pair(node, first) : std::pair(first, node);
        return Error{ErrorCode::kInfeasible,
                     fmt::format("participants {} and {} are not connected",
                                 pleach::quoted(network.topology.node(source).name),
                                 pleach::quoted(network.topology.node(target).name))};
      }
    }
  }
  return ok();
}

// Keeps the smallest bound over everything it is shown. A labelling gives each node a part; parts
// without a rank only relay.
class Search {
 public:
  explicit Search(const Network& network) : network_(network) {}

  double best() const { return best_; }
  const std::string& witness() const { return witness_; }

  void consider(const std::vector<int32_t>& part_of, int32_t part_count) {
    const Topology& topology = network_.topology;
    std::vector<Edge> edges(at(part_count));
    for (const LinkId id : network_.links) {
      const Link& link = topology.link(id);
      const auto source = at(part_of[link.source.index()]);
      const auto target = at(part_of[link.target.index()]);
      if (source != target) {
        edges[source].out += bandwidth_of(topology, id);
        edges[target].in += bandwidth_of(topology, id);
      }
    }
    for (std::size_t rank = 0; rank < network_.participants.size(); ++rank) {
      const int32_t part = part_of[network_.participants[rank].index()];
      Edge& edge = edges[at(part)];
      edge.rank_count += 1;
      edge.has_root = edge.has_root || network_.root.index() == rank;
    }
    for (std::size_t part = 0; part < edges.size(); ++part) {
      if (edges[part].rank_count > 0 && edges[part].rank_count < network_.rank_count()) {
        consider_edge(edges[part], part_of, static_cast<int32_t>(part));
      }
    }
    if (network_.collective == CollectiveKind::kAllReduce && !network_.in_network) {
      consider_partition(edges);
    }
  }

  void consider_value(double algbw, const std::string& witness) {
    if (improves(algbw)) {
      best_ = algbw;
      witness_ = witness;
    }
  }

 private:
  bool improves(double algbw) const { return algbw < best_ * (1 - 1e-12); }

  void consider_edge(const Edge& edge, const std::vector<int32_t>& part_of, int32_t part) {
    const EdgeBound bound = bound_of(network_.collective, edge, network_.rank_count());
    if (!improves(bound.algbw)) {
      return;
    }
    best_ = bound.algbw;
    // The smaller side is told; what leaves the larger one enters it.
    const bool inside = edge.rank_count * 2 <= network_.rank_count();
    std::vector<NodeId> members;
    for (const NodeId node : network_.participants) {
      if ((part_of[node.index()] == part) == inside) {
        members.push_back(node);
      }
    }
    const double capacity = bound.by_out ? edge.out : edge.in;
    witness_ = members.size() == 1 ? describe_node(members[0], bound.by_out == inside, capacity)
                                   : describe_set(members, bound.by_out == inside, capacity);
  }

  std::string describe_node(NodeId node, bool sends, double capacity) const {
    const Topology& topology = network_.topology;
    const auto links = sends ? topology.links_out(node) : topology.links_in(node);
    const auto count = std::ranges::count_if(links, [&](LinkId id) {
      const Link& link = topology.link(id);
      return network_.included[(sends ? link.target : link.source).index()];
    });
    return fmt::format("node {} {} over {} link{} ({})", topology.node(node).name,
                       sends ? "sends" : "receives", count, count == 1 ? "" : "s",
                       format_bandwidth(capacity));
  }

  std::string describe_set(const std::vector<NodeId>& members, bool out, double capacity) const {
    std::vector<std::string> names;
    for (const NodeId node : members) {
      if (names.size() == kNamedMembers) {
        names.push_back(fmt::format("... {} ranks in all", members.size()));
        break;
      }
      names.push_back(network_.topology.node(node).name);
    }
    return fmt::format("cut {{{}}}: {} {}", join(names, ", "), format_bandwidth(capacity),
                       out ? "out" : "in");
  }

  // Between k groups that combine freely inside, at least k - 1 messages of the whole buffer are
  // sent before any group holds the result (each other group sends its part), and k - 1 after it
  // (each other group receives it). Each leaves one group and enters another. On symmetric links
  // the least of these over all partitions is attained (Nash-Williams 1961, Tutte 1961).
  void consider_partition(const std::vector<Edge>& edges) {
    double groups = 0;
    double out = 0;
    double in = 0;
    for (const Edge& edge : edges) {
      check_interruption();
      if (edge.rank_count > 0) {
        groups += 1;
        out += edge.out;
        in += edge.in;
      }
    }
    const double messages = 2 * (groups - 1);
    if (groups < 2 || !improves(std::min(out, in) / messages)) {
      return;
    }
    best_ = std::min(out, in) / messages;
    witness_ =
        fmt::format("{} must move the buffer {:.0f} times over the links between them ({})",
                    groups == network_.rank_count() ? fmt::format("{:.0f} ranks", groups)
                                                    : fmt::format("{:.0f} groups of ranks", groups),
                    messages, format_bandwidth(std::min(out, in)));
  }

  const Network& network_;
  double best_ = std::numeric_limits<double>::infinity();
  std::string witness_;
};

void consider_single_nodes(const Network& network, Search& search) {
  std::vector<int32_t> part_of(network.topology.nodes().size());
  std::iota(part_of.begin(), part_of.end(), 0);
  search.consider(part_of, count_of(part_of));
}

// Each relay with the ranks that have no other neighbour, as the leaves of a fat tree.
void consider_leaves(const Network& network, Search& search) {
  std::vector<int32_t> part_of(network.topology.nodes().size());
  std::iota(part_of.begin(), part_of.end(), 0);
  std::vector<int32_t> neighbour(part_of.size(), kNone);
  std::vector<bool> has_more(part_of.size(), false);
  for (const LinkId id : network.links) {
    const Link& link = network.topology.link(id);
    for (const auto& [one, other] :
         {std::pair(link.source, link.target), std::pair(link.target, link.source)}) {
      int32_t& known = neighbour[one.index()];
      has_more[one.index()] = has_more[one.index()] || (known != kNone && known != other.value);
      known = other.value;
    }
  }
  for (const NodeId rank : network.participants) {
    const int32_t relay = neighbour[rank.index()];
    if (!has_more[rank.index()] && relay != kNone && network.rank_of(NodeId{relay}) == kNoRank) {
      part_of[rank.index()] = relay;
    }
  }
  search.consider(part_of, count_of(part_of));
}

// Two halves in rank order; the relays are a third part.
void consider_rank_order(const Network& network, Search& search) {
  std::vector<int32_t> part_of(network.topology.nodes().size(), 2);
  for (std::size_t rank = 0; rank < network.participants.size(); ++rank) {
    const bool first = rank < network.participants.size() / 2;
    part_of[network.participants[rank].index()] = first ? 0 : 1;
  }
  search.consider(part_of, 3);
}

// Two halves along each dimension, and the slabs of one coordinate.
void consider_grid(const Network& network, Search& search) {
  const std::size_t node_count = network.topology.nodes().size();
  std::size_t stride = network.topology.rank_nodes().size();
  // What hangs on a rank is on its side.
  std::vector<std::size_t> place(node_count);
  for (std::size_t node = 0; node < node_count; ++node) {
    const NodeId id{static_cast<int32_t>(node)};
    const auto out = network.topology.links_out(id);
    const bool hangs = hangs_on(network.topology.node(id)) && !out.empty();
    place[node] = hangs ? network.topology.link(out.front()).target.index() : node;
  }
  for (const GridDimension& dimension : network.topology.grid()) {
    const auto size = at(dimension.size);
    stride /= size;
    std::vector<int32_t> slab(node_count);
    std::vector<int32_t> half(node_count);
    for (std::size_t node = 0; node < node_count; ++node) {
      const std::size_t coordinate = place[node] / stride % size;
      slab[node] = static_cast<int32_t>(coordinate);
      half[node] = coordinate < size / 2 ? 0 : 1;
    }
    search.consider(slab, dimension.size);
    search.consider(half, 2);
  }
}

// The groups that links faster than some bandwidth connect, for each bandwidth there is.
void consider_connected_groups(const Network& network, Search& search) {
  std::vector<int64_t> thresholds;
  for (const LinkId id : network.links) {
    thresholds.push_back(network.topology.link(id).bandwidth_bytes_per_s);
  }
  std::ranges::sort(thresholds);
  thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
  thresholds.pop_back();  // nothing is faster than the fastest
  const std::size_t stride = thresholds.size() / kThresholdLimit + 1;
  for (std::size_t index = 0; index < thresholds.size(); index += stride) {
    std::vector<int32_t> part_of(network.topology.nodes().size());
    std::iota(part_of.begin(), part_of.end(), 0);
    const auto find = [&](int32_t node) {
      while (part_of[at(node)] != node) {
        int32_t& parent = part_of[at(node)];
        node = parent = part_of[at(parent)];
      }
      return node;
    };
    for (const LinkId id : network.links) {
      const Link& link = network.topology.link(id);
      if (link.bandwidth_bytes_per_s > thresholds[index]) {
        part_of[at(find(link.source.value))] = find(link.target.value);
      }
    }
    for (std::size_t node = 0; node < part_of.size(); ++node) {
      part_of[node] = find(static_cast<int32_t>(node));
    }
    search.consider(part_of, count_of(part_of));
  }
}

// Where the network is a tree its narrowest edge says all: whether it is one.
bool consider_tree(const Network& network, Search& search) {
  const std::optional<LinkTree> tree = link_tree(network.topology, network.included);
  if (!tree) {
    return false;
  }
  const int32_t node = narrowest_edge(*tree, network.collective, network.participants,
                                      network.participants[network.root.index()]);
  if (node != kNone) {
    const std::vector<bool> below = tree->below(node);
    search.consider({below.begin(), below.end()}, 2);
  }
  return true;
}

// Minimum cuts, shown to a Search until none is smaller.
class CutSearch {
 public:
  CutSearch(const Network& network, Search& search, int32_t flow_limit)
      : network_(network), search_(search), flows_left_(flow_limit) {}

  // Whether every cut that matters was covered: the smallest bound by cuts has been found.
  bool run() {
    const std::size_t vertex_count = network_.participants.size() + at(network_.relay_count);
    const bool too_large = network_.links.size() > kFlowLinkLimit ||
                           (network_.relay_count == 0 && vertex_count > kFlowNodeLimit);
    if (too_large || network_.collective == CollectiveKind::kAllToAll) {
      return false;
    }
    const auto flow_cost = static_cast<int64_t>(network_.links.size());
    flows_left_ = std::min<int64_t>(flows_left_, kFlowWorkLimit / (flow_cost * flow_cost));
    make_graph();
    const bool covered = search();
    return covered && is_exact_;
  }

 private:
  // The least capacity per rank that a set found so far has, in units. Fractions of integers, so
  // that no set that is only a little better is passed over.
  struct Ratio {
    int64_t capacity = 0;
    int64_t ranks = 1;
    bool operator<(const Ratio& other) const {
      return static_cast<__int128>(capacity) * other.ranks <
             static_cast<__int128>(other.capacity) * ranks;
    }
  };

  bool search() {
    switch (network_.collective) {
      case CollectiveKind::kAllReduce:
        return search_cuts(0, false) && search_cuts(0, true);
      case CollectiveKind::kBroadcast:
        return search_cuts(network_.root.index(), false);
      case CollectiveKind::kReduce:
        return search_cuts(network_.root.index(), true);
      default:
        return search_ratios();
    }
  }

  // A reduce_scatter is an all_gather with all links reversed, a scatter a gather.
  bool reversed() const { return ends_with_shards(network_.collective); }

  void make_graph() {
    vertex_of_.assign(network_.topology.nodes().size(), kNone);
    int32_t vertex_count = 0;
    for (std::size_t node = 0; node < vertex_of_.size(); ++node) {
      if (network_.included[node]) {
        vertex_of_[node] = vertex_count++;
      }
    }
    source_ = vertex_count;
    std::vector<int64_t> bandwidths;
    for (const LinkId id : network_.links) {
      bandwidths.push_back(network_.topology.link(id).bandwidth_bytes_per_s);
    }
    const auto rank_count = static_cast<int64_t>(network_.participants.size());
    const bool demands = gives_shards(network_.collective) || ends_with_shards(network_.collective);
    // A ratio multiplies links by its ranks, and has a demand of its capacity for each rank.
    const int64_t unit = capacity_unit(bandwidths, demands ? 2 * rank_count : 1);
    is_exact_ = are_multiples(bandwidths, unit);
    for (const LinkId id : network_.links) {
      const Link& link = network_.topology.link(id);
      const int32_t source = vertex_of_[link.source.index()];
      const int32_t target = vertex_of_[link.target.index()];
      const int64_t capacity = (link.bandwidth_bytes_per_s - 1) / unit + 1;
      arcs_.push_back({reversed() ? target : source, reversed() ? source : target, capacity});
    }
    if (demands) {
      for (const NodeId node : network_.participants) {
        arcs_.push_back({source_, vertex_of_[node.index()], 0});
      }
    }
    graph_.emplace(vertex_count + (demands ? 1 : 0), arcs_);
    find_ends(vertex_count);
  }

  // Between what cuts are looked for: a rank with one neighbour is cut off alone, which has been
  // considered, or with the neighbour, which so stands for all such ranks.
  void find_ends(int32_t vertex_count) {
    std::vector<int32_t> neighbour(at(vertex_count), kNone);
    std::vector<bool> has_more(at(vertex_count), false);
    for (std::size_t link = 0; link < network_.links.size(); ++link) {
      for (const auto& [one, other] : {std::pair(arcs_[link].source, arcs_[link].target),
                                       std::pair(arcs_[link].target, arcs_[link].source)}) {
        has_more[at(one)] =
            has_more[at(one)] || !(neighbour[at(one)] == kNone || neighbour[at(one)] == other);
        neighbour[at(one)] = other;
      }
    }
    std::vector<bool> is_end(at(vertex_count), false);
    for (std::size_t rank = 0; rank < network_.participants.size(); ++rank) {
      const int32_t own = vertex_of_rank(rank);
      const int32_t end = has_more[at(own)] ? own : neighbour[at(own)];
      if (!is_end[at(end)]) {
        is_end[at(end)] = true;
        ends_.push_back(end);
      }
    }
  }

  void show(const MinimumCut& cut) {
    std::vector<int32_t> part_of(vertex_of_.size(), 1);
    for (std::size_t node = 0; node < part_of.size(); ++node) {
      const int32_t vertex = vertex_of_[node];
      if (vertex != kNone && cut.source_side[at(vertex)]) {
        part_of[node] = 0;
      }
    }
    search_.consider(part_of, 2);
  }

  int32_t vertex_of_rank(std::size_t rank) const {
    return vertex_of_[network_.participants[rank].index()];
  }

  // All cuts between one rank and the others, into it or out of it.
  bool search_cuts(std::size_t rank, bool into) {
    const int32_t hub = vertex_of_rank(rank);
    if (network_.relay_count == 0) {
      show(into ? graph_->into(hub) : graph_->out_of(hub));
      return true;
    }
    for (const int32_t end : ends_) {
      if (end == hub) {
        continue;
      }
      if (flows_left_-- <= 0) {
        return false;
      }
      show(into ? graph_->between(end, hub) : graph_->between(hub, end));
    }
    return true;
  }

  // The set with the least capacity per rank inside, by Dinkelbach's method: were no set better
  // than one of `capacity` for `ranks`, then `capacity` from each rank could flow to any one over
  // links `ranks` times as wide; a cut that forbids it is a better set.
  //   source  Dinkelbach, On nonlinear fractional programming, 1967; Zhao et al., ForestColl, 2024
  bool search_ratios() {
    start_ratio();
    if (has_root(network_.collective)) {
      return search_ratio(vertex_of_rank(network_.root.index()));
    }
    if (network_.relay_count == 0) {
      return search_ratio(kNone);
    }
    return std::ranges::all_of(ends_, [&](int32_t end) { return search_ratio(end); });
  }

  // The best of the single ranks, and of all but one; without the root, if there is one.
  void start_ratio() {
    std::vector<Ratio> alone(at(source_)), others(at(source_));
    for (std::size_t link = 0; link < network_.links.size(); ++link) {
      alone[at(arcs_[link].source)].capacity += arcs_[link].capacity;
      others[at(arcs_[link].target)].capacity += arcs_[link].capacity;
    }
    const auto rank_count = static_cast<int64_t>(network_.participants.size());
    const bool rooted = has_root(network_.collective);
    least_ = {INT64_MAX, 1};
    for (std::size_t rank = 0; rank < network_.participants.size(); ++rank) {
      const bool is_root = rooted && rank == network_.root.index();
      if (!is_root) {
        least_ = std::min(least_, alone[at(vertex_of_rank(rank))]);
      }
      if (is_root || !rooted) {
        least_ = std::min(least_, {others[at(vertex_of_rank(rank))].capacity, rank_count - 1});
      }
    }
  }

  Ratio ratio_of(const MinimumCut& cut) const {
    Ratio ratio{.capacity = 0, .ranks = 0};
    for (std::size_t link = 0; link < network_.links.size(); ++link) {
      const FlowArc& arc = arcs_[link];
      const bool leaves = cut.source_side[at(arc.source)] && !cut.source_side[at(arc.target)];
      ratio.capacity += leaves ? arc.capacity : 0;
    }
    for (std::size_t rank = 0; rank < network_.participants.size(); ++rank) {
      ratio.ranks += cut.source_side[at(vertex_of_rank(rank))] ? 1 : 0;
    }
    return ratio;
  }

  // Towards one vertex, or kNone: towards every one.
  bool search_ratio(int32_t target) {
    const auto rank_count = static_cast<int64_t>(network_.participants.size());
    while (flows_left_-- > 0) {
      check_interruption();
      for (std::size_t arc = 0; arc < arcs_.size(); ++arc) {
        const bool is_link = arc < network_.links.size();
        graph_->set_capacity(arc, is_link ? arcs_[arc].capacity * least_.ranks : least_.capacity);
      }
      const MinimumCut cut =
          target == kNone ? graph_->out_of(source_) : graph_->between(source_, target);
      if (cut.capacity >= least_.capacity * rank_count) {
        return true;
      }
      show(cut);
      least_ = ratio_of(cut);
    }
    return false;
  }

  const Network& network_;
  Search& search_;
  int64_t flows_left_;
  std::vector<int32_t> vertex_of_;  // by node
  int32_t source_ = 0;              // feeds every rank
  std::vector<FlowArc> arcs_;       // of the links, in units; and demands of ranks
  std::vector<int32_t> ends_;       // vertices, in the order of ranks
  bool is_exact_ = true;            // no capacity was rounded
  Ratio least_;
  std::optional<FlowGraph> graph_;
};

// Every pair exchanges size/n over as many links as lie between the two: the sum of their
// distances must fit the capacity of all links.
void consider_volume(const Network& network, Search& search) {
  double capacity = 0;
  for (const LinkId link : network.links) {
    capacity += bandwidth_of(network.topology, link);
  }
  double total = 0;
  int64_t work = 0;
  for (const NodeId source : network.participants) {
    check_interruption();
    if (work > kWalkLimit) {
      break;  // the distances from the other sources count nothing: looser, not wrong
    }
    const std::vector<int32_t> distance = distances(network, source, false, work);
    double from_source = 0;
    for (const NodeId target : network.participants) {
      from_source += distance[target.index()];
    }
    if (network.likeness.transitive()) {
      total = from_source * network.rank_count();
      break;
    }
    total += from_source;
  }
  const double pairs = network.rank_count() * (network.rank_count() - 1);
  search.consider_value(capacity * network.rank_count() / total,
                        fmt::format("messages travel {:.2f} links on average, over {} in all",
                                    total / pairs, format_bandwidth(capacity)));
}

// Whether every relay and rank takes in as much as it gives out.
bool is_balanced(const Network& network) {
  std::vector<__int128> surplus(network.topology.nodes().size(), 0);
  for (const LinkId id : network.links) {
    const Link& link = network.topology.link(id);
    surplus[link.source.index()] += link.bandwidth_bytes_per_s;
    surplus[link.target.index()] -= link.bandwidth_bytes_per_s;
  }
  return std::ranges::all_of(surplus, [](__int128 difference) { return difference == 0; });
}

// Whether the bound is known to be attained, given that all cuts were covered. Broadcasts by
// packings of trees (Edmonds 1973), all_gathers also through balanced relays (ForestColl 2024);
// gathers and scatters by a flow (Ford and Fulkerson 1956); all_reduce on grids whose densest part
// is the whole: vertex-transitive ones, and meshes of at most two dimensions (Nash-Williams 1961,
// Tutte 1961); the rest by an obvious schedule.
bool is_exact(const Network& network, bool covered) {
  const std::size_t rank_count = network.participants.size();
  const bool direct = network.relay_count == 0;
  const auto is_long = [](const GridDimension& dimension) { return dimension.size > 1; };
  const auto long_dimensions = std::ranges::count_if(network.topology.grid(), is_long);
  const auto streams = [&network](SwitchAbilities asked) {
    return network.in_network &&
           is_stream_tree(network.topology, network.links, network.participants, asked);
  };
  switch (network.collective) {
    case CollectiveKind::kAllReduce:
      if (network.in_network) {
        const auto can_both = [](const Node& node) { return node.reduces && node.multicasts; };
        return (network.likeness.star && std::ranges::any_of(network.topology.nodes(), can_both)) ||
               (covered && streams({.reduces = true, .multicasts = true}));
      }
      return network.likeness.transitive() || (network.likeness.grid && long_dimensions <= 2) ||
             (direct && rank_count == 2);
    case CollectiveKind::kBroadcast:
      return covered &&
             (direct || network.likeness.star || rank_count == 2 || streams({.multicasts = true}));
    case CollectiveKind::kReduce:
      return covered &&
             (direct || network.likeness.star || rank_count == 2 || streams({.reduces = true}));
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      return covered && (direct || is_balanced(network));
    case CollectiveKind::kGather:
    case CollectiveKind::kScatter:
      return covered;
    case CollectiveKind::kAllToAll: {
      const auto sizes = network.topology.grid();
      const auto differs = [&](const GridDimension& dimension) {
        return is_long(dimension) && std::ranges::any_of(sizes, [&](const GridDimension& other) {
                 return is_long(other) && other.size != dimension.size;
               });
      };
      return network.likeness.clique || network.likeness.star ||
             (network.likeness.torus && std::ranges::none_of(sizes, differs));
    }
  }
  return false;
}

}  // namespace

Result<Bound> algbw_bound(const Topology& topology, const BoundRequest& request) {
  PLEACH_ASSIGN(network, make_network(topology, request));
  PLEACH_TRY(check_connected(network));
  Search search(network);
  consider_single_nodes(network, search);
  // A gather's cuts weigh less the fewer ranks they part from the root: the root's own decides
  // where no other is narrower.
  const bool is_flow = has_root(network.collective) && has_parts(network.collective);
  bool covered = is_flow ? network.likeness.transitive() : network.likeness.single_cuts_decide();
  if (!network.likeness.clique && !network.likeness.star) {
    consider_rank_order(network, search);
    consider_leaves(network, search);
    consider_grid(network, search);
    consider_connected_groups(network, search);
  }
  if (!covered) {
    covered =
        consider_tree(network, search) || CutSearch(network, search, request.max_flow_limit).run();
  }
  if (network.collective == CollectiveKind::kAllToAll) {
    consider_volume(network, search);
  }
  return Bound{search.best(), is_exact(network, covered), search.witness()};
}

}  // namespace pleach
