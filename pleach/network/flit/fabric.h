// Fabric: routers, interfaces and the channels between them, as the flit model sees a network.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One end of a channel: a port of a router, or an interface, which has one channel each way.
struct FabricEnd {
  int32_t router = -1;  // -1: an interface
  int32_t port = 0;     // of the router, from 0, inputs and outputs each; or the interface's number
};

// How often a channel passes a flit: `flits` in `cycles`, at most one each.
struct FlitRate {
  int64_t flits = 1;
  int64_t cycles = 1;  // ≥ flits ≥ 1
  bool operator==(const FlitRate&) const = default;
};

struct FabricChannel {
  FabricEnd source;
  FabricEnd target;
  int32_t latency_cycles = 1;  // ≥ 0
  FlitRate rate = {};
  // Of a channel out of a router: that much more until a flit that has the switch is in the
  // channel; ≥ 0. Credits know nothing of it.
  int32_t passing_cycles = 0;
};

// Every port of a router has one channel. Channels leave routers or interfaces, never both ends at
// interfaces.
struct Fabric {
  int32_t router_count = 0;
  int32_t interface_count = 0;
  std::vector<FabricChannel> channels;
};

struct RouterFabricOptions {
  int64_t flit_bytes = 16;
  int32_t interfaces = 1;         // per rank
  int32_t interface_latency = 1;  // of channels between an interface and its own node's router
};

// A topology as a fabric. Every node is a router, but a rank or I/O node that passes nothing
// through, has one link each way and gets one interface: that interface is at the other end of the
// node's links, with their latency and bandwidth. Channel number i is link i for all links; those
// of interfaces follow, for each interface the one out of it, then the one into it, unless links
// are them.
// The clock is flit bytes over the fastest link's bandwidth; latencies are whole cycles, rounded
// up, and on slower links as much longer as a flit takes more than a cycle there; those of switches
// are rounded up likewise, and passed by flits on their way to the channels that leave them.
struct TopologyFabric {
  Fabric fabric;
  std::vector<int32_t> router_of;  // by node, or -1
  std::vector<int32_t>
      first_interface;  // by node, ranks' before I/O nodes'; the others follow; -1: none
  std::vector<int32_t> ejection_port;  // by interface: the port of the router that leads to it
  int64_t cycle_bytes_per_s = 0;       // the fastest link's bandwidth
  int64_t flit_bytes = 0;
};

// Errors: kInvalidArgument: a flit outside 1 byte to 1 MiB, interfaces outside 1 to 64, a link or a
// switch that a flit takes more than 2^20 cycles to pass.
Result<TopologyFabric> fabric_of(const Topology& topology, const RouterFabricOptions& options);

// Where a node has an interface for each of its links: that of one of `links`, all those out of it,
// or into it.
int32_t interface_of_link(const TopologyFabric& fabric, NodeId node, std::span<const LinkId> links,
                          LinkId link);

// What a packet does at each router on its way: `output` · classes + class of VCs, one number per
// router; the last is the target interface's port, whose VCs are all one class, 0.
//   route    links in order from the node of its source to that of `interface`; may be empty
//   classes  how many there are; class_of[i] that of route[i]
std::vector<uint16_t> hops_of(const TopologyFabric& fabric, const std::vector<LinkId>& route,
                              int32_t interface, int32_t classes,
                              const std::vector<int32_t>& class_of);

}  // namespace pleach
