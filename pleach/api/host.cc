#include "pleach/api/host.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/runtime/transport.h"

namespace pleach {
namespace {

// Of one core, and of a rank that has one; where several share it, each waits for the others.
struct TransportFigures {
  int64_t copy_bytes_per_s;  // sent and received by one core
  int64_t message_ps;        // sent and received
  int64_t latency_ps;
  int64_t turn_ps;  // of a rank on a core that others wait for
};

constexpr TransportFigures kShm = {6'000'000'000, 800'000, 300'000, 4'000'000};
constexpr TransportFigures kTcp = {3'000'000'000, 9'000'000, 10'000'000, 3'500'000};

}  // namespace

int32_t core_count() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? std::max(CPU_COUNT(&cores), 1) : 1;
}

HostModel default_host_model(std::string_view transport, int32_t rank_count, int32_t core_count) {
  const TransportFigures& figures = transport_name(transport) == "tcp" ? kTcp : kShm;
  const int64_t busy_cores = std::min(rank_count, core_count);
  HostModel model;
  // A rank sends while another receives: what passes takes both.
  model.rank_bandwidth_bytes_per_s = figures.copy_bytes_per_s;
  model.host_bandwidth_bytes_per_s = figures.copy_bytes_per_s * busy_cores;
  model.latency_ps =
      rank_count <= core_count ? figures.latency_ps : figures.turn_ps * rank_count / core_count;
  model.message_bytes = static_cast<int64_t>(static_cast<double>(figures.copy_bytes_per_s) * 1e-12 *
                                             static_cast<double>(figures.message_ps));
  return model;
}

std::vector<int32_t> spread_over_hosts(int32_t rank_count, int32_t host_count) {
  std::vector<int32_t> hosts;
  for (int64_t rank = 0; rank < rank_count; ++rank) {
    hosts.push_back(static_cast<int32_t>(rank * host_count / rank_count));
  }
  return hosts;
}

// Two links of 5 us (the link preset eth_25), and TCP at both ends.
Result<HostNetwork> default_network(std::string_view bandwidth) {
  HostNetwork network = {3'125'000'000, 20'000'000, "tail_drop"};
  if (!bandwidth.empty()) {
    PLEACH_SET(network.bandwidth_bytes_per_s, parse_bandwidth_bytes_per_s(bandwidth));
  }
  return network;
}

Result<RankTopology> default_topology(const std::string& transport, std::span<const int32_t> hosts,
                                      const std::string& name, const HostNetwork& network) {
  std::vector<int32_t> ranks_on(at(1 + *std::ranges::max_element(hosts)));
  for (const int32_t host : hosts) {
    ++ranks_on[at(host)];
  }
  const HostModel model =
      default_host_model(transport, *std::ranges::max_element(ranks_on), core_count());
  PLEACH_ASSIGN(topology, ranks_on.size() > 1 ? hosts_topology(model, network, hosts, name)
                                              : host_topology(model, ranks_on[0], name));
  return RankTopology{std::move(topology), model.reduce_bandwidth_bytes_per_s};
}

}  // namespace pleach
