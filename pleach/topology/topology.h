// Topology: nodes and directed links, as a value. Built through TopologyBuilder, which validates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/base/result.h"

namespace pleach {

enum class NodeKind : uint8_t { kRank, kSwitch, kIo };

// "rank", "switch", "io". parse_node_kind lists the known ones in its error.
std::string_view to_text(NodeKind kind);
Result<NodeKind> parse_node_kind(std::string_view text);

struct Node {
  std::string name;
  NodeKind kind = NodeKind::kRank;
  bool forwards = false;    // a rank or io node that passes traffic through; a switch always does
  bool reduces = false;     // a switch that combines streams
  bool multicasts = false;  // a switch that replicates streams
  std::string switch_model = {};  // of a switch: NAME[,key=value...] (fabric/switch_model.h)
  int64_t overhead_ps = 0;        // time a message occupies its connection at this source [ps]
  int64_t latency_ps = 0;         // of a switch: from a link in to a link out, pipelined [ps]
};

// Which of the shortest routes traffic takes (topology/routes.h).
enum class RoutingKind : uint8_t { kShortest, kSpread, kEcmp, kDmodk };

// "shortest", "spread", "ecmp", "dmodk". parse_routing_kind lists the known ones in its error.
std::string_view to_text(RoutingKind kind);
Result<RoutingKind> parse_routing_kind(std::string_view text);

struct Routing {
  RoutingKind kind = RoutingKind::kShortest;
  int64_t seed = 0;  // of ecmp's hash
  bool operator==(const Routing&) const = default;
};

struct Link {  // directed
  NodeId source;
  NodeId target;
  int64_t bandwidth_bytes_per_s = 0;  // > 0
  int64_t latency_ps = 0;             // propagation, pipelined [ps], ≥ 0
  // Ports that it takes at each end, of switches that have ports (switch_ports.h); all share the
  // bandwidth, and one may have all of it. 1 to kMostLanes.
  int32_t lanes = 1;
};
inline constexpr int32_t kMostLanes = 65'536;

// Header bytes that framing adds on the wire: one header per packet of at most packet_bytes.
struct Framing {
  int64_t header_bytes = 0;
  int64_t packet_bytes = 256;
  bool operator==(const Framing&) const = default;
};

// Mixed-radix coordinates of the rank nodes, first dimension slowest; node i is the i-th.
struct GridDimension {
  int32_t size = 1;
  bool wraps = false;
  bool operator==(const GridDimension&) const = default;
};

// Immutable after creation; copying is deep. Thread safe: no shared state.
class Topology {
 public:
  const std::string& name() const { return name_; }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const Link> links() const { return links_; }
  const Node& node(NodeId id) const { return nodes_[id.index()]; }
  const Link& link(LinkId id) const { return links_[id.index()]; }
  // From the node that a link leaves to the other end: its latency and, if that node is a switch,
  // that of the switch. A route takes the sum of it over its links.   [ps]
  int64_t hop_latency_ps(LinkId id) const {
    return link(id).latency_ps + node(link(id).source).latency_ps;  // only switches have one
  }
  // Links out of / into a node, in the order they were added (grids: those out of a node go per
  // dimension minus, plus, which is N, S, W, E in two dimensions).
  std::span<const LinkId> links_out(NodeId id) const { return out_[id]; }
  std::span<const LinkId> links_in(NodeId id) const { return in_[id]; }
  // The rank nodes in ascending id: rank r of a schedule over all of them is rank_nodes()[r].
  std::span<const NodeId> rank_nodes() const { return rank_nodes_; }
  // Set when the first nodes are exactly a full grid of ranks (ring, mesh, torus), and the others,
  // if there are any, I/O nodes that pass no traffic through (grids.h); else empty.
  std::span<const GridDimension> grid() const { return grid_; }
  const Framing& framing() const { return framing_; }
  const Routing& routing() const { return routing_; }
  // The class that a link was given, "nic"; empty: none (link_classes.h).
  std::string_view given_class(LinkId id) const {
    return classes_.of_link.empty() ? std::string_view()
                                    : classes_.names[at(classes_.of_link[id.index()])];
  }
  // Hash of everything that matters to a schedule (kinds, links, attributes, routing; not names).
  uint64_t fingerprint() const;

 private:
  friend class TopologyBuilder;
  friend Topology renamed(Topology topology, std::string name);
  friend Topology with_routing(Topology topology, Routing routing);

  // Links grouped by one of their ends: those of node v are links[first[v] .. first[v + 1]).
  struct LinksByNode {
    std::vector<int32_t> first;
    std::vector<LinkId> links;
    std::span<const LinkId> operator[](NodeId id) const {
      const auto begin = at(first[id.index()]);
      return std::span(links).subspan(begin, at(first[id.index() + 1]) - begin);
    }
  };

  struct GivenClasses {
    std::vector<std::string> names = {""};  // that links were given; the first: none
    std::vector<int32_t> of_link;           // which of them; empty: all have none
  };

  std::string name_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<NodeId> rank_nodes_;
  std::vector<GridDimension> grid_;
  Framing framing_;
  Routing routing_;
  LinksByNode out_, in_;
  GivenClasses classes_;
};

// Errors: a header outside 0 to 1 MiB, a packet outside 1 byte to 1 GiB.
Status check_framing(const Framing& framing, const std::string& where);

// Collects nodes and links; every error is one line that starts with `where` when it is given
// ("cluster.toml:14"). Limits: 1,048,576 nodes, 16,777,216 links and as many lanes, 1000 s of
// latency or overhead.
class TopologyBuilder {
 public:
  explicit TopologyBuilder(std::string name) { topology_.name_ = std::move(name); }

  // A node without a name is called by its number. Names are UTF-8 without control letters and
  // without `,`, `+` and `>`, at most 128 bytes.
  // Errors: duplicate or malformed name, negative overhead or latency, a rank or io node that
  // reduces or has a latency.
  Result<NodeId> add_node(Node node, const std::string& where = "");
  // Errors: unknown endpoint, self-loop, bandwidth ≤ 0, negative latency, lanes out of range.
  Result<LinkId> add_link(Link link, const std::string& where = "");
  // Both directions.
  Status add_cable(Link link, const std::string& where = "");
  // Gives a link a class, "nic"; the last one counts.
  // Errors: no such link; a name that is none for a node, or "all".
  Status set_class(LinkId link, const std::string& name, const std::string& where = "");
  void set_name(std::string name) { topology_.name_ = std::move(name); }
  void set_grid(std::vector<GridDimension> grid) { topology_.grid_ = std::move(grid); }
  void set_framing(Framing framing) { topology_.framing_ = framing; }
  void set_routing(Routing routing) { topology_.routing_ = routing; }
  std::optional<NodeId> find(const std::string& node_name) const;

  // Errors: no rank node; rank nodes that cannot all reach each other (names one pair, and where
  // the first of them was added).
  Result<Topology> build() &&;

 private:
  Topology topology_;
  std::unordered_map<std::string, NodeId> by_name_;
  std::vector<std::string> where_;  // of each node
  std::unordered_map<std::string, int32_t> class_by_name_;
  int64_t lane_count_ = 0;
};

// Whether traffic may pass through `node` on its way to another.
inline bool passes_through(const Node& node) {
  return node.kind == NodeKind::kSwitch || node.forwards;
}

}  // namespace pleach
