// HostModel: what messages between the ranks of one host cost, as a topology.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// All messages of a host pass its one memory, and take turns on its cores. So a rank has a way to
// it and a way from it, and between these is one link, on which all messages meet. What a message
// costs whatever its size is a header: it takes of the cores' time as much as so many bytes, of
// those of its two ranks and of all together.
struct HostModel {
  int64_t rank_bandwidth_bytes_per_s = 1;  // of one rank, each way
  int64_t host_bandwidth_bytes_per_s = 1;  // of all together
  int64_t latency_ps = 0;                  // until who waits goes on
  int64_t message_bytes = 0;               // that take as long as a message of nothing
  // Of a rank's reductions: an option of simulations, as topologies have none. 0: they take no
  // time beyond that of the messages.
  int64_t reduce_bandwidth_bytes_per_s = 0;
  bool operator==(const HostModel&) const = default;
};

// A topology file (docs/topologies.md), with `comment` before it, a line or several.
//   rank_count  ≥ 1
std::string host_topology_toml(const HostModel& model, int32_t rank_count, const std::string& name,
                               const std::string& comment = "");

// The same, read. Errors: kInvalidArgument: figures that no topology has.
Result<Topology> host_topology(const HostModel& model, int32_t rank_count, const std::string& name);

// What joins hosts: a way to a switch that all reach, and one from it, at each.
struct HostNetwork {
  int64_t bandwidth_bytes_per_s = 1;  // of a host, each way
  int64_t latency_ps = 0;             // from a host to another
  std::string switch_model = {};      // Node's
};

// Several hosts of one model. What goes to another host leaves it beside the link on which the
// messages of the host meet. Messages cost the same wherever they go; where the network is slower
// than a rank, what they cost there.
//   hosts   by rank: 0, 1, ..., each at least once
//   errors  as host_topology()
Result<Topology> hosts_topology(const HostModel& model, const HostNetwork& network,
                                std::span<const int32_t> hosts, const std::string& name);

}  // namespace pleach
