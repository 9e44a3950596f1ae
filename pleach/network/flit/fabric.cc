#include "pleach/network/flit/fabric.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/topology/link_name.h"
#include "pleach/topology/nodes_of_kind.h"

namespace pleach {
namespace {

constexpr int64_t kMostLatency = int64_t{1} << 20;
constexpr int64_t kPicoseconds = 1'000'000'000'000;

using Wide = __int128;

// ⌈latency / cycle⌉, a cycle being flit_bytes / bytes_per_s.
int64_t latency_cycles(int64_t latency_ps, int64_t flit_bytes, int64_t bytes_per_s) {
  const Wide scaled = Wide{latency_ps} * bytes_per_s;
  const Wide unit = Wide{flit_bytes} * kPicoseconds;
  return static_cast<int64_t>((scaled + unit - 1) / unit);
}

FlitRate rate_of(int64_t bytes_per_s, int64_t fastest) {
  const int64_t common = std::gcd(bytes_per_s, fastest);
  return {bytes_per_s / common, fastest / common};
}

bool is_an_interface(const Topology& topology, NodeId node, int32_t interfaces) {
  return interfaces == 1 && !passes_through(topology.node(node)) &&
         topology.links_out(node).size() == 1 && topology.links_in(node).size() == 1;
}

// Numbers ports as channels come, and adds those of interfaces.
class FabricBuilder {
 public:
  FabricBuilder(const Topology& topology, const RouterFabricOptions& options)
      : topology_(topology), options_(options) {}

  Result<TopologyFabric> build();

 private:
  void place_nodes();
  Status add_links();
  void add_interfaces();
  FabricEnd end_of(NodeId node, std::vector<int32_t>& ports);

  const Topology& topology_;
  const RouterFabricOptions& options_;
  TopologyFabric result_;
  std::vector<int32_t> inputs_, outputs_;  // ports so far, by router
};

void FabricBuilder::place_nodes() {
  const std::size_t nodes = topology_.nodes().size();
  result_.router_of.assign(nodes, -1);
  result_.first_interface.assign(nodes, -1);
  // Two ranks joined by one cable have nothing but interfaces: one of them is a router then.
  for (std::size_t node = 0; node < nodes; ++node) {
    const NodeId id{static_cast<int32_t>(node)};
    bool is_interface = topology_.node(id).kind != NodeKind::kSwitch &&
                        is_an_interface(topology_, id, options_.interfaces);
    if (is_interface) {
      const NodeId next = topology_.link(topology_.links_out(id).front()).target;
      is_interface = !is_an_interface(topology_, next, options_.interfaces);
    }
    if (!is_interface) {
      result_.router_of[node] = result_.fabric.router_count++;
    }
  }
  for (const NodeKind kind : {NodeKind::kRank, NodeKind::kIo}) {
    for (const NodeId node : nodes_of_kind(topology_, kind)) {
      result_.first_interface[node.index()] = result_.fabric.interface_count;
      result_.fabric.interface_count += options_.interfaces;
    }
  }
  inputs_.assign(at(result_.fabric.router_count), 0);
  outputs_.assign(at(result_.fabric.router_count), 0);
  result_.ejection_port.assign(at(result_.fabric.interface_count), -1);
}

FabricEnd FabricBuilder::end_of(NodeId node, std::vector<int32_t>& ports) {
  const int32_t router = result_.router_of[node.index()];
  return router < 0 ? FabricEnd{-1, result_.first_interface[node.index()]}
                    : FabricEnd{router, ports[at(router)]++};
}

Status FabricBuilder::add_links() {
  for (const Link& link : topology_.links()) {
    const FlitRate rate = rate_of(link.bandwidth_bytes_per_s, result_.cycle_bytes_per_s);
    const int64_t latency =
        latency_cycles(link.latency_ps, options_.flit_bytes, result_.cycle_bytes_per_s) +
        (rate.cycles - 1) / rate.flits;
    if (latency > kMostLatency) {
      return invalid(fmt::format("{}: link {} takes {} cycles; the flit model has at most {}",
                                 topology_.name(), link_name(topology_, link), latency,
                                 kMostLatency));
    }
    const Node& passed = topology_.node(link.source);
    const int64_t passing =
        latency_cycles(passed.latency_ps, options_.flit_bytes, result_.cycle_bytes_per_s);
    if (passing > kMostLatency) {
      return invalid(fmt::format("{}: switch {} takes {} cycles; the flit model has at most {}",
                                 topology_.name(), passed.name, passing, kMostLatency));
    }
    const FabricEnd source = end_of(link.source, outputs_);
    const FabricEnd target = end_of(link.target, inputs_);
    if (target.router < 0) {
      result_.ejection_port[at(target.port)] = source.port;
    }
    result_.fabric.channels.push_back(
        {source, target, static_cast<int32_t>(latency), rate, static_cast<int32_t>(passing)});
  }
  return ok();
}

void FabricBuilder::add_interfaces() {
  for (std::size_t node = 0; node < topology_.nodes().size(); ++node) {
    if (result_.first_interface[node] < 0) {
      continue;
    }
    const int32_t router = result_.router_of[node];
    for (int32_t i = 0; router >= 0 && i < options_.interfaces; ++i) {
      const FabricEnd interface { - 1, result_.first_interface[node] + i };
      const FabricEnd in{router, inputs_[at(router)]++}, out{router, outputs_[at(router)]++};
      result_.fabric.channels.push_back({interface, in, options_.interface_latency, {}});
      result_.fabric.channels.push_back({out, interface, options_.interface_latency, {}});
      result_.ejection_port[at(interface.port)] = out.port;
    }
  }
}

Result<TopologyFabric> FabricBuilder::build() {
  constexpr int64_t kMostFlit = 1 << 20;
  constexpr int32_t kMostInterfaces = 64;
  if (options_.flit_bytes < 1 || options_.flit_bytes > kMostFlit) {
    return invalid(
        fmt::format("a flit of {} bytes is outside 1 byte to 1 MiB", options_.flit_bytes));
  }
  if (options_.interfaces < 1 || options_.interfaces > kMostInterfaces) {
    return invalid(
        fmt::format("{} interfaces are outside 1 to {}", options_.interfaces, kMostInterfaces));
  }
  result_.flit_bytes = options_.flit_bytes;
  for (const Link& link : topology_.links()) {
    result_.cycle_bytes_per_s = std::max(result_.cycle_bytes_per_s, link.bandwidth_bytes_per_s);
  }
  place_nodes();
  PLEACH_TRY(add_links());
  add_interfaces();
  return std::move(result_);
}

}  // namespace

Result<TopologyFabric> fabric_of(const Topology& topology, const RouterFabricOptions& options) {
  return FabricBuilder(topology, options).build();
}

int32_t interface_of_link(const TopologyFabric& fabric, NodeId node, std::span<const LinkId> links,
                          LinkId link) {
  const auto number = std::ranges::find(links, link) - links.begin();
  return fabric.first_interface[node.index()] + static_cast<int32_t>(number);
}

std::vector<uint16_t> hops_of(const TopologyFabric& fabric, const std::vector<LinkId>& route,
                              int32_t interface, int32_t classes,
                              const std::vector<int32_t>& class_of) {
  std::vector<uint16_t> hops;
  hops.reserve(route.size() + 1);
  const auto add = [&](int32_t port, int32_t vc_class) {
    hops.push_back(static_cast<uint16_t>(port * classes + vc_class));
  };
  for (std::size_t i = 0; i < route.size(); ++i) {
    const FabricChannel& channel = fabric.fabric.channels[route[i].index()];
    if (channel.source.router >= 0 && channel.target.router >= 0) {
      add(channel.source.port, class_of[i]);
    }
  }
  add(fabric.ejection_port[at(interface)], 0);
  return hops;
}

}  // namespace pleach
