#include "pleach/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

constexpr std::size_t kNodeLimit = std::size_t{1} << 20;
constexpr std::size_t kLinkLimit = std::size_t{1} << 24;
constexpr std::size_t kNameLimitBytes = 128;
constexpr int64_t kHeaderLimitBytes = int64_t{1} << 20;
constexpr int64_t kPacketLimitBytes = int64_t{1} << 30;
constexpr int64_t kTimeLimitPs = 1000 * kPicosecondsPerSecond;

bool is_well_formed_name(std::string_view name) {
  return name.size() <= kNameLimitBytes && is_utf8(name) && trim(name) == name &&
         std::ranges::none_of(name, [](char letter) {
           const auto byte = static_cast<uint8_t>(letter);
           return byte < 0x20 || byte == 0x7f || letter == ',' || letter == '+' || letter == '>';
         });
}

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

std::span<const LinkId> group_of(NodeId id, const std::vector<int32_t>& first,
                                 const std::vector<LinkId>& grouped) {
  const auto begin = at(first[id.index()]);
  const auto end = at(first[id.index() + 1]);
  return std::span(grouped).subspan(begin, end - begin);
}

// The nodes and links for which the flags are set, through the builder.
Result<Topology> keep(const Topology& topology, const std::vector<bool>& keep_node,
                      const std::vector<bool>& keep_link) {
  TopologyBuilder builder(topology.name());
  builder.set_framing(topology.framing());
  std::vector<NodeId> new_id(topology.nodes().size());
  for (std::size_t node = 0; node < new_id.size(); ++node) {
    if (keep_node[node]) {
      PLEACH_SET(new_id[node], builder.add_node(topology.nodes()[node]));
    }
  }
  for (std::size_t index = 0; index < topology.links().size(); ++index) {
    Link link = topology.links()[index];
    if (keep_link[index] && keep_node[link.source.index()] && keep_node[link.target.index()]) {
      link.source = new_id[link.source.index()];
      link.target = new_id[link.target.index()];
      PLEACH_TRY(builder.add_link(link));
    }
  }
  return std::move(builder).build();
}

template <typename AnyId>
Status clear_flags(std::span<const AnyId> removed, std::vector<bool>& flags,
                   std::string_view what) {
  for (const AnyId id : removed) {
    if (id.value < 0 || id.index() >= flags.size()) {
      return invalid(fmt::format("no {} {}: there are {}", what, id.value, flags.size()));
    }
    flags[id.index()] = false;
  }
  return ok();
}

}  // namespace

std::span<const LinkId> Topology::links_out(NodeId id) const {
  return group_of(id, first_out_, out_);
}

std::span<const LinkId> Topology::links_in(NodeId id) const {
  return group_of(id, first_in_, in_);
}

uint64_t Topology::fingerprint() const {
  Fingerprint hash;
  hash.add(static_cast<uint64_t>(nodes_.size()));
  for (const Node& node : nodes_) {
    hash.add(static_cast<int32_t>(node.kind));
    hash.add(static_cast<int32_t>((node.forwards ? 1 : 0) | (node.reduces ? 2 : 0) |
                                  (node.multicasts ? 4 : 0)));
    hash.add(node.overhead_ps);
  }
  for (const Link& link : links_) {
    hash.add(link.source.value);
    hash.add(link.target.value);
    hash.add(link.bandwidth_bytes_per_s);
    hash.add(link.latency_ps);
  }
  hash.add(framing_.header_bytes);
  hash.add(framing_.packet_bytes);
  return hash.value();
}

Result<NodeId> TopologyBuilder::add_node(Node node, const std::string& where) {
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
  if (node.kind != NodeKind::kSwitch && (node.reduces || node.multicasts)) {
    return invalid(where, fmt::format("node {}: only a switch reduces or multicasts",
                                      pleach::quoted(node.name)));
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
  const auto node_count = count_of(topology_.nodes_);
  for (const NodeId end : {link.source, link.target}) {
    if (end.value < 0 || end.value >= node_count) {
      return invalid(where,
                     fmt::format("link {}->{}: unknown node {} (there are {})", link.source.value,
                                 link.target.value, end.value, node_count));
    }
  }
  const auto error = [&](const std::string& what) {
    return invalid(where, fmt::format("link {}->{} {}", topology_.node(link.source).name,
                                      topology_.node(link.target).name, what));
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
  topology_.links_.push_back(link);
  return LinkId{count_of(topology_.links_) - 1};
}

Status TopologyBuilder::add_cable(Link link, const std::string& where) {
  PLEACH_TRY(add_link(link, where));
  std::swap(link.source, link.target);
  PLEACH_TRY(add_link(link, where));
  return ok();
}

std::optional<NodeId> TopologyBuilder::find(const std::string& node_name) const {
  const auto found = by_name_.find(node_name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

Result<Topology> TopologyBuilder::build() && {
  if (topology_.rank_nodes_.empty()) {
    return invalid("",
                   fmt::format("topology {} has no rank node", pleach::quoted(topology_.name_)));
  }
  const std::size_t node_count = topology_.nodes_.size();
  group_links(
      topology_.links_, node_count, [](const Link& link) { return link.source; },
      topology_.first_out_, topology_.out_);
  group_links(
      topology_.links_, node_count, [](const Link& link) { return link.target; },
      topology_.first_in_, topology_.in_);
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

Result<Topology> without(const Topology& topology, std::span<const NodeId> removed_nodes,
                         std::span<const LinkId> removed_links) {
  std::vector<bool> keep_node(topology.nodes().size(), true);
  std::vector<bool> keep_link(topology.links().size(), true);
  PLEACH_TRY(clear_flags(removed_nodes, keep_node, "node"));
  PLEACH_TRY(clear_flags(removed_links, keep_link, "link"));
  return keep(topology, keep_node, keep_link);
}

Result<Topology> without_links(const Topology& topology, std::span<const LinkId> removed) {
  return without(topology, {}, removed);
}

Result<Topology> without_nodes(const Topology& topology, std::span<const NodeId> removed) {
  return without(topology, removed, {});
}

Result<Topology> with_latencies(const Topology& topology, std::span<const int64_t> latency_ps) {
  PLEACH_CHECK(latency_ps.size() == topology.links().size(), "one latency per link");
  TopologyBuilder builder(topology.name());
  builder.set_framing(topology.framing());
  builder.set_grid({topology.grid().begin(), topology.grid().end()});
  for (const Node& node : topology.nodes()) {
    PLEACH_TRY(builder.add_node(node));
  }
  for (std::size_t index = 0; index < latency_ps.size(); ++index) {
    Link link = topology.links()[index];
    link.latency_ps = latency_ps[index];
    PLEACH_TRY(builder.add_link(link));
  }
  return std::move(builder).build();
}

Topology renamed(Topology topology, std::string name) {
  topology.name_ = std::move(name);
  return topology;
}

}  // namespace pleach
