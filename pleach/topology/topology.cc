#include "pleach/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/link_classes.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

constexpr std::size_t kNodeLimit = std::size_t{1} << 20;
constexpr std::size_t kLinkLimit = std::size_t{1} << 24;
constexpr std::size_t kNameLimitBytes = 128;
constexpr int64_t kHeaderLimitBytes = int64_t{1} << 20;
constexpr int64_t kPacketLimitBytes = int64_t{1} << 30;
constexpr int64_t kTimeLimitPs = 1000 * kPicosecondsPerSecond;

constexpr std::array<Name<NodeKind>, 3> kNodeKindNames = {
    {{NodeKind::kRank, "rank"}, {NodeKind::kSwitch, "switch"}, {NodeKind::kIo, "io"}}};

bool is_well_formed_name(std::string_view name) {
  return name.size() <= kNameLimitBytes && is_utf8(name) && trim(name) == name &&
         std::ranges::none_of(name, [](char letter) {
           const auto byte = static_cast<uint8_t>(letter);
           return byte < 0x20 || byte == 0x7f || letter == ',' || letter == '+' || letter == '>';
         });
}

constexpr std::array<Name<RoutingKind>, 4> kRoutingKindNames = {
    {{RoutingKind::kShortest, "shortest"},
     {RoutingKind::kSpread, "spread"},
     {RoutingKind::kEcmp, "ecmp"},
     {RoutingKind::kDmodk, "dmodk"}}};

// Whether every rank reaches every other. Walks from a node visit the nodes that traffic may reach
// and go on from those that forward. A node whose walk finds every rank is universal; so is every
// node that can pass traffic to a universal one, which leaves one walk for most topologies.
class Reachability {
 public:
  explicit Reachability(const Topology& topology)
      : topology_(topology),
        stamp_(topology.nodes().size(), 0),
        state_(topology.nodes().size(), State::kUnknown) {}

  // The first pair of ranks without a route, if there is one.
  std::optional<std::pair<NodeId, NodeId>> find_disconnected() {
    if (topology_.rank_nodes().size() < 2) {
      return std::nullopt;
    }
    for (const NodeId source : topology_.rank_nodes()) {
      check_interruption();
      if (!is_universal(source)) {
        walk(source);
        for (const NodeId target : topology_.rank_nodes()) {
          if (stamp_[target.index()] != epoch_) {
            return std::pair{source, target};
          }
        }
      }
    }
    return std::nullopt;
  }

 private:
  enum class State : uint8_t { kUnknown, kUniversal, kPartial };

  bool is_universal(NodeId source) {
    if (passes_through(topology_.node(source))) {
      return forwarder_is_universal(source);
    }
    return std::ranges::any_of(topology_.links_out(source), [&](LinkId link) {
      const NodeId next = topology_.link(link).target;
      return passes_through(topology_.node(next)) && forwarder_is_universal(next);
    });
  }

  bool forwarder_is_universal(NodeId node) {
    if (state_[node.index()] == State::kUnknown) {
      walk(node);
      const bool all = std::ranges::all_of(
          topology_.rank_nodes(), [&](NodeId rank) { return stamp_[rank.index()] == epoch_; });
      if (all) {
        mark_universal(node);
      } else {
        state_[node.index()] = State::kPartial;
      }
    }
    return state_[node.index()] == State::kUniversal;
  }

  void walk(NodeId source) {
    ++epoch_;
    stamp_[source.index()] = epoch_;
    queue_.assign(1, source);
    for (std::size_t at = 0; at < queue_.size(); ++at) {
      check_interruption();
      for (const LinkId link : topology_.links_out(queue_[at])) {
        const NodeId next = topology_.link(link).target;
        if (std::exchange(stamp_[next.index()], epoch_) != epoch_ &&
            passes_through(topology_.node(next))) {
          queue_.push_back(next);
        }
      }
    }
  }

  void mark_universal(NodeId node) {
    state_[node.index()] = State::kUniversal;
    queue_.assign(1, node);
    for (std::size_t at = 0; at < queue_.size(); ++at) {
      check_interruption();
      for (const LinkId link : topology_.links_in(queue_[at])) {
        const NodeId previous = topology_.link(link).source;
        if (passes_through(topology_.node(previous)) &&
            std::exchange(state_[previous.index()], State::kUniversal) != State::kUniversal) {
          queue_.push_back(previous);
        }
      }
    }
  }

  const Topology& topology_;
  std::vector<int32_t> stamp_;  // the epoch of the last walk that came by
  std::vector<State> state_;    // of forwarding nodes
  std::vector<NodeId> queue_;
  int32_t epoch_ = 0;
};

// Groups link ids by `end_of(link)`, keeping their order: first[v] .. first[v + 1] of `grouped`.
template <typename EndOf>
void group_links(const std::vector<Link>& links, std::size_t node_count, EndOf end_of,
                 std::vector<int32_t>& first, std::vector<LinkId>& grouped) {
  first.assign(node_count + 1, 0);
  for (const Link& link : links) {
    ++first[end_of(link).index() + 1];
  }
  for (std::size_t node = 0; node < node_count; ++node) {
    first[node + 1] += first[node];
  }
  grouped.resize(links.size());
  std::vector<int32_t> next(first.begin(), first.end() - 1);
  for (std::size_t link = 0; link < links.size(); ++link) {
    const int32_t place = next[end_of(links[link]).index()]++;
    grouped[at(place)] = LinkId{static_cast<int32_t>(link)};
  }
}

}  // namespace

std::string_view to_text(NodeKind kind) {
  return name_of(kNodeKindNames, kind);
}

Result<NodeKind> parse_node_kind(std::string_view text) {
  return parse_name(kNodeKindNames, "kind", text);
}

std::string_view to_text(RoutingKind kind) {
  return name_of(kRoutingKindNames, kind);
}

Result<RoutingKind> parse_routing_kind(std::string_view text) {
  return parse_name(kRoutingKindNames, "routing", text);
}

uint64_t Topology::fingerprint() const {
  Fingerprint hash;
  hash.add(static_cast<uint64_t>(nodes_.size()));
  for (const Node& node : nodes_) {
    hash.add(static_cast<int32_t>(node.kind));
    hash.add(static_cast<int32_t>((node.forwards ? 1 : 0) | (node.reduces ? 2 : 0) |
                                  (node.multicasts ? 4 : 0)));
    hash.add(node.overhead_ps);
    if (!node.switch_model.empty()) {
      hash.add(std::string_view(node.switch_model));
    }
    if (node.latency_ps != 0) {
      hash.add(std::string_view("latency"));
      hash.add(node.latency_ps);
    }
  }
  for (const Link& link : links_) {
    check_interruption();
    hash.add(link.source.value);
    hash.add(link.target.value);
    hash.add(link.bandwidth_bytes_per_s);
    hash.add(link.latency_ps);
    if (link.lanes != 1) {
      hash.add(std::string_view("lanes"));
      hash.add(link.lanes);
    }
  }
  hash.add(framing_.header_bytes);
  hash.add(framing_.packet_bytes);
  if (routing_ != Routing{}) {
    hash.add(static_cast<int32_t>(routing_.kind));
    hash.add(routing_.seed);
  }
  return hash.value();
}

Result<NodeId> TopologyBuilder::add_node(Node node, const std::string& where) {
  check_interruption();
  if (topology_.nodes_.size() >= kNodeLimit) {
    return invalid(where, fmt::format("more than {} nodes", kNodeLimit));
  }
  const NodeId id{count_of(topology_.nodes_)};
  if (node.name.empty()) {
    node.name = fmt::format("{}", id.value);
  }
  if (!is_well_formed_name(node.name)) {
    return invalid(where, fmt::format("node name {} is not plain UTF-8 of at most {} bytes "
                                      "without ',', '+' and '>'",
                                      pleach::quoted(node.name), kNameLimitBytes));
  }
  if (node.overhead_ps < 0 || node.overhead_ps > kTimeLimitPs) {
    return invalid(where, fmt::format("node {}: overhead {} ps is outside 0 to 1000 s",
                                      pleach::quoted(node.name), node.overhead_ps));
  }
  if (node.latency_ps < 0 || node.latency_ps > kTimeLimitPs) {
    return invalid(where, fmt::format("node {}: latency {} ps is outside 0 to 1000 s",
                                      pleach::quoted(node.name), node.latency_ps));
  }
  if (node.kind != NodeKind::kSwitch && node.latency_ps > 0) {
    return invalid(where,
                   fmt::format("node {}: only a switch has a latency", pleach::quoted(node.name)));
  }
  if (node.kind != NodeKind::kSwitch && (node.reduces || node.multicasts)) {
    return invalid(where, fmt::format("node {}: only a switch reduces or multicasts",
                                      pleach::quoted(node.name)));
  }
  if (node.kind != NodeKind::kSwitch && !node.switch_model.empty()) {
    return invalid(
        where, fmt::format("node {}: only a switch has a switch model", pleach::quoted(node.name)));
  }
  if (!by_name_.emplace(node.name, id).second) {
    return invalid(where, fmt::format("duplicate node name {}", pleach::quoted(node.name)));
  }
  if (node.kind == NodeKind::kRank) {
    topology_.rank_nodes_.push_back(id);
  }
  topology_.nodes_.push_back(std::move(node));
  where_.push_back(where);
  return id;
}

Result<LinkId> TopologyBuilder::add_link(Link link, const std::string& where) {
  check_interruption();
  const auto node_count = count_of(topology_.nodes_);
  for (const NodeId end : {link.source, link.target}) {
    if (end.value < 0 || end.value >= node_count) {
      return invalid(where,
                     fmt::format("link {}->{}: unknown node {} (there are {})", link.source.value,
                                 link.target.value, end.value, node_count));
    }
  }
  const auto error = [&](const std::string& what) {
    return invalid(where, fmt::format("link {} {}", link_name(topology_, link), what));
  };
  if (topology_.links_.size() >= kLinkLimit) {
    return invalid(where, fmt::format("more than {} links", kLinkLimit));
  }
  if (link.source == link.target) {
    return error("is a self-loop");
  }
  if (link.bandwidth_bytes_per_s <= 0) {
    return error(
        fmt::format("has bandwidth {} B/s: it must be positive", link.bandwidth_bytes_per_s));
  }
  if (link.latency_ps < 0 || link.latency_ps > kTimeLimitPs) {
    return error(fmt::format("has latency {} ps: outside 0 to 1000 s", link.latency_ps));
  }
  if (link.lanes < 1 || link.lanes > kMostLanes) {
    return error(fmt::format("has {} lanes: outside 1 to {}", link.lanes, kMostLanes));
  }
  lane_count_ += link.lanes;
  if (lane_count_ > int64_t{kLinkLimit}) {
    return invalid(where, fmt::format("more than {} lanes", kLinkLimit));
  }
  topology_.links_.push_back(link);
  if (!topology_.classes_.of_link.empty()) {
    topology_.classes_.of_link.push_back(0);
  }
  return LinkId{count_of(topology_.links_) - 1};
}

Status TopologyBuilder::add_cable(Link link, const std::string& where) {
  PLEACH_TRY(add_link(link, where));
  std::swap(link.source, link.target);
  PLEACH_TRY(add_link(link, where));
  return ok();
}

Status TopologyBuilder::set_class(LinkId link, const std::string& name, const std::string& where) {
  if (link.value < 0 || link.index() >= topology_.links_.size()) {
    return invalid(where,
                   fmt::format("no link {}: there are {}", link.value, topology_.links_.size()));
  }
  if (name.empty() || name == kAllLinks || !is_well_formed_name(name)) {
    return invalid(where, fmt::format("class {} of a link is not plain UTF-8 of 1 to {} bytes "
                                      "without ',', '+' and '>', and other than '{}'",
                                      pleach::quoted(name), kNameLimitBytes, kAllLinks));
  }
  const auto [found, is_new] = class_by_name_.emplace(name, count_of(topology_.classes_.names));
  if (is_new) {
    topology_.classes_.names.push_back(name);
  }
  topology_.classes_.of_link.resize(topology_.links_.size());
  topology_.classes_.of_link[link.index()] = found->second;
  return ok();
}

std::optional<NodeId> TopologyBuilder::find(const std::string& node_name) const {
  const auto found = by_name_.find(node_name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

// Whether the first nodes are the ranks of the grid, and the others only hang on them.
bool is_grid(std::span<const GridDimension> grid, std::span<const Node> nodes,
             std::span<const NodeId> ranks) {
  int64_t size = 1;
  for (const GridDimension& dimension : grid) {
    size *= dimension.size;
  }
  return size == std::ssize(ranks) && ranks.back().value == size - 1 &&
         std::ranges::all_of(nodes.subspan(ranks.size()), hangs_on);
}

}  // namespace

Result<Topology> TopologyBuilder::build() && {
  if (topology_.rank_nodes_.empty()) {
    return invalid("",
                   fmt::format("topology {} has no rank node", pleach::quoted(topology_.name_)));
  }
  PLEACH_CHECK(
      topology_.grid_.empty() || is_grid(topology_.grid_, topology_.nodes_, topology_.rank_nodes_),
      "a grid is of the first nodes, and I/O nodes hang on them");
  const std::size_t node_count = topology_.nodes_.size();
  group_links(
      topology_.links_, node_count, [](const Link& link) { return link.source; },
      topology_.out_.first, topology_.out_.links);
  group_links(
      topology_.links_, node_count, [](const Link& link) { return link.target; },
      topology_.in_.first, topology_.in_.links);
  if (const auto pair = Reachability(topology_).find_disconnected()) {
    return invalid(where_[pair->first.index()],
                   fmt::format("rank {} cannot reach rank {}: no route between them",
                               pleach::quoted(topology_.node(pair->first).name),
                               pleach::quoted(topology_.node(pair->second).name)));
  }
  return std::move(topology_);
}

Status check_framing(const Framing& framing, const std::string& where) {
  if (framing.header_bytes < 0 || framing.header_bytes > kHeaderLimitBytes) {
    return invalid(where, fmt::format("header of {} bytes is outside 0 to {}", framing.header_bytes,
                                      kHeaderLimitBytes));
  }
  if (framing.packet_bytes < 1 || framing.packet_bytes > kPacketLimitBytes) {
    return invalid(where, fmt::format("packet of {} bytes is outside 1 to {}", framing.packet_bytes,
                                      kPacketLimitBytes));
  }
  return ok();
}

}  // namespace pleach
