// What is known of messages on a host where nobody has measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/topology/host_model.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Cores that this process may run on, at least 1.
int32_t core_count();

// Figures of some machine of today, per transport: a message through shared memory or over TCP, and
// what a rank that shares its core waits until it has it. Which algorithm is the fastest depends on
// their ratios; `pleach probe` measures them.
HostModel default_host_model(std::string_view transport, int32_t rank_count, int32_t core_count);

// `hosts` by rank, as TransportChoice has them: so many ranks evenly on so many hosts.
std::vector<int32_t> spread_over_hosts(int32_t rank_count, int32_t host_count);

// What joins hosts: Ethernet without flow control (topology/switches/tail_drop.cc), over TCP.
//   bandwidth  of a host's link, each way, "10Gb/s"; empty: 25 Gb/s
//   errors     kInvalidArgument: it is none
Result<HostNetwork> default_network(std::string_view bandwidth);

// Ranks over a transport, as a topology: those of a host as default_host_model() has them, with as
// many cores as this one.
//   hosts  by rank, as TransportChoice has them
struct RankTopology {
  Topology topology;
  int64_t reduce_bandwidth_bytes_per_s = 0;  // HostModel's
};
Result<RankTopology> default_topology(const std::string& transport, std::span<const int32_t> hosts,
                                      const std::string& name, const HostNetwork& network);

}  // namespace pleach
