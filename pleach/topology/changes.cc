#include "pleach/topology/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

// Flags of `count` things, set where `ids` has them.
template <typename AnyId>
Result<std::vector<bool>> flags_of(std::span<const AnyId> ids, std::size_t count,
                                   std::string_view what) {
  std::vector<bool> flags(count);
  for (const AnyId id : ids) {
    if (id.value < 0 || id.index() >= count) {
      return invalid(fmt::format("no {} {}: there are {}", what, id.value, count));
    }
    flags[id.index()] = true;
  }
  return flags;
}

// Adds a link as it will be, with the class of the one it was.
Status copy_link(const Topology& topology, LinkId old, const Link& link, TopologyBuilder& builder) {
  PLEACH_ASSIGN(added, builder.add_link(link));
  if (const std::string_view given = topology.given_class(old); !given.empty()) {
    return builder.set_class(added, std::string(given));
  }
  return ok();
}

// Each node as `change_node(id, node)` leaves it, and each link as `change(id, link)` does.
template <typename ChangeNode, typename Change>
Result<Topology> with_parts(const Topology& topology, ChangeNode change_node, Change change) {
  TopologyBuilder builder(topology.name());
  builder.set_framing(topology.framing());
  builder.set_routing(topology.routing());
  builder.set_grid({topology.grid().begin(), topology.grid().end()});
  for (int32_t index = 0; index < count_of(topology.nodes()); ++index) {
    Node node = topology.node(NodeId{index});
    change_node(NodeId{index}, node);
    PLEACH_TRY(builder.add_node(std::move(node)));
  }
  for (int32_t index = 0; index < count_of(topology.links()); ++index) {
    const LinkId id = {index};
    Link link = topology.link(id);
    change(id, link);
    PLEACH_TRY(copy_link(topology, id, link, builder));
  }
  return std::move(builder).build();
}

// The same nodes, and each link as `change(id, link)` leaves it.
template <typename Change>
Result<Topology> with_links(const Topology& topology, Change change) {
  return with_parts(
      topology, [](NodeId, const Node&) {}, std::move(change));
}

}  // namespace

Result<Topology> without(const Topology& topology, std::span<const NodeId> removed_nodes,
                         std::span<const LinkId> removed_links) {
  PLEACH_ASSIGN(no_node, flags_of(removed_nodes, topology.nodes().size(), "node"));
  PLEACH_ASSIGN(no_link, flags_of(removed_links, topology.links().size(), "link"));
  TopologyBuilder builder(topology.name());
  builder.set_framing(topology.framing());
  builder.set_routing(topology.routing());
  const auto hangs = [&](NodeId node) { return hangs_on(topology.node(node)); };
  if (std::ranges::all_of(removed_nodes, hangs) &&
      std::ranges::all_of(removed_links, [&](LinkId link) {
        return hangs(topology.link(link).source) || hangs(topology.link(link).target);
      })) {
    builder.set_grid({topology.grid().begin(), topology.grid().end()});
  }
  std::vector<NodeId> new_id(topology.nodes().size());
  for (std::size_t node = 0; node < new_id.size(); ++node) {
    if (!no_node[node]) {
      PLEACH_SET(new_id[node], builder.add_node(topology.nodes()[node]));
    }
  }
  for (int32_t index = 0; index < count_of(topology.links()); ++index) {
    const LinkId id = {index};
    Link link = topology.link(id);
    if (!no_link[id.index()] && !no_node[link.source.index()] && !no_node[link.target.index()]) {
      link.source = new_id[link.source.index()];
      link.target = new_id[link.target.index()];
      PLEACH_TRY(copy_link(topology, id, link, builder));
    }
  }
  return std::move(builder).build();
}

Result<Topology> with_bandwidth(const Topology& topology, std::span<const LinkId> links,
                                int64_t bandwidth_bytes_per_s) {
  PLEACH_ASSIGN(is_changed, flags_of(links, topology.links().size(), "link"));
  return with_links(topology, [&](LinkId id, Link& link) {
    if (is_changed[id.index()]) {
      link.bandwidth_bytes_per_s = bandwidth_bytes_per_s;
    }
  });
}

Result<Topology> without_lanes(const Topology& topology, std::span<const LinkId> links) {
  PLEACH_TRY(flags_of(links, topology.links().size(), "link"));
  std::vector<int32_t> lost(topology.links().size(), 0);
  for (const LinkId id : links) {
    if (++lost[id.index()] >= topology.link(id).lanes) {
      return invalid(fmt::format("link {} has {} lane{}: to take the last one is to take the link",
                                 link_name(topology, id), topology.link(id).lanes,
                                 topology.link(id).lanes == 1 ? "" : "s"));
    }
  }
  return with_links(topology, [&](LinkId id, Link& link) {
    const int32_t lanes = link.lanes - lost[id.index()];
    const __int128 bytes_per_s = link.bandwidth_bytes_per_s;
    link.bandwidth_bytes_per_s =
        std::max<int64_t>(static_cast<int64_t>(bytes_per_s * lanes / link.lanes), 1);
    link.lanes = lanes;
  });
}

Result<Topology> with_latencies(const Topology& topology, std::span<const int64_t> latency_ps) {
  if (latency_ps.size() != topology.links().size()) {
    return invalid(
        fmt::format("{} latencies for {} links", latency_ps.size(), topology.links().size()));
  }
  return with_links(topology,
                    [&](LinkId id, Link& link) { link.latency_ps = latency_ps[id.index()]; });
}

Result<Topology> with_switch_models(const Topology& topology, std::span<const std::string> models) {
  if (models.size() != topology.nodes().size()) {
    return invalid(
        fmt::format("{} models of switches for {} nodes", models.size(), topology.nodes().size()));
  }
  return with_parts(
      topology, [&](NodeId id, Node& node) { node.switch_model = models[id.index()]; },
      [](LinkId, const Link&) {});
}

Topology with_routing(Topology topology, Routing routing) {
  topology.routing_ = routing;
  return topology;
}

Topology renamed(Topology topology, std::string name) {
  topology.name_ = std::move(name);
  return topology;
}

}  // namespace pleach
