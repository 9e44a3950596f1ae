#include "pleach/topology/host_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/topology/shapes.h"

namespace pleach {

std::string host_topology_toml(const HostModel& model, int32_t rank_count, const std::string& name,
                               const std::string& comment) {
  std::string text;
  for (const std::string_view line : split(comment, '\n')) {
    text += line.empty() ? "" : fmt::format("# {}\n", one_line(line));
  }
  return text + fmt::format(R"(name = "{name}"

[defaults]
bandwidth = "{rank}B/s"       # of a rank, each way
latency = "0"

[framing]
header = {message}            # what a message costs, in bytes
packet = "1GiB"

[[node]]
name = "{{rank}}"
count = {{ rank = {ranks} }}

[[node]]
name = "in"
kind = "switch"

[[node]]
name = "out"
kind = "switch"

[[link]]
source = "{{rank}}"
target = "in"
count = {{ rank = {ranks} }}

[[link]]                      # all messages meet here
source = "in"
target = "out"
bandwidth = "{host}B/s"
latency = "{latency}ps"

[[link]]
source = "out"
target = "{{rank}}"
count = {{ rank = {ranks} }}
)",
                            fmt::arg("name", name), fmt::arg("ranks", rank_count),
                            fmt::arg("rank", model.rank_bandwidth_bytes_per_s),
                            fmt::arg("host", model.host_bandwidth_bytes_per_s),
                            fmt::arg("latency", model.latency_ps),
                            fmt::arg("message", model.message_bytes));
}

Result<Topology> host_topology(const HostModel& model, int32_t rank_count,
                               const std::string& name) {
  return parse_topology_toml(host_topology_toml(model, rank_count, name), name);
}

Result<Topology> hosts_topology(const HostModel& model, const HostNetwork& network,
                                std::span<const int32_t> hosts, const std::string& name) {
  // As long as a message of nothing takes at the ranks; in their host that is too little where the
  // network is slower than they.
  const int64_t message_bytes =
      network.bandwidth_bytes_per_s < model.rank_bandwidth_bytes_per_s
          ? std::llround(static_cast<double>(model.message_bytes) *
                         static_cast<double>(network.bandwidth_bytes_per_s) /
                         static_cast<double>(model.rank_bandwidth_bytes_per_s))
          : model.message_bytes;
  const Framing framing = {.header_bytes = message_bytes, .packet_bytes = int64_t{1} << 30};
  PLEACH_TRY(check_framing(framing, name));
  TopologyBuilder builder(name);
  builder.set_framing(framing);
  std::vector<NodeId> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    PLEACH_ASSIGN(node, builder.add_node({.name = std::to_string(rank)}));
    ranks.push_back(node);
  }
  PLEACH_ASSIGN(middle, builder.add_node({.name = "network",
                                          .kind = NodeKind::kSwitch,
                                          .switch_model = network.switch_model}));
  const int64_t half_ps = network.latency_ps / 2;
  const int32_t host_count = 1 + *std::ranges::max_element(hosts);
  for (int32_t host = 0; host < host_count; ++host) {
    const auto gate = [&](std::string_view side) {
      return builder.add_node({.name = fmt::format("{}{}", side, host), .kind = NodeKind::kSwitch});
    };
    PLEACH_ASSIGN(in, gate("in"));
    PLEACH_ASSIGN(out, gate("out"));
    PLEACH_TRY(builder.add_link({in, out, model.host_bandwidth_bytes_per_s, model.latency_ps}));
    PLEACH_TRY(builder.add_link({in, middle, network.bandwidth_bytes_per_s, half_ps}));
    PLEACH_TRY(builder.add_link({middle, out, network.bandwidth_bytes_per_s, half_ps}));
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      if (hosts[rank] == host) {
        PLEACH_TRY(builder.add_link({ranks[rank], in, model.rank_bandwidth_bytes_per_s, 0}));
        PLEACH_TRY(builder.add_link({out, ranks[rank], model.rank_bandwidth_bytes_per_s, 0}));
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace pleach
