#include "pleach/topology/host_model.h"

#include <fmt/format.h>

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

}  // namespace pleach
