#include "pleach/network/flit/deadlock.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

// "0->1 VC 2": the channel in whose buffer a packet waits.
std::string wait_text(const Topology& topology, const Fabric& fabric, const VcWait& wait) {
  const auto name = [&](const FabricChannel& channel, std::size_t index) {
    if (index < topology.links().size()) {
      return link_name(topology, LinkId{static_cast<int32_t>(index)});
    }
    return fmt::format("interface {}",
                       std::max(channel.source.router < 0 ? channel.source.port : -1,
                                channel.target.router < 0 ? channel.target.port : -1));
  };
  for (std::size_t i = 0; i < fabric.channels.size(); ++i) {
    const FabricChannel& channel = fabric.channels[i];
    if (channel.target.router == wait.router && channel.target.port == wait.input) {
      return fmt::format("{} VC {}", name(channel, i), wait.vc);
    }
  }
  return "?";
}

}  // namespace

std::optional<Error> deadlock_of(const Topology& topology, const Fabric& fabric,
                                 const Routers& routers) {
  const std::vector<VcWait> waits = routers.deadlock();
  if (waits.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> texts;
  texts.reserve(waits.size());
  for (const VcWait& wait : waits) {
    texts.push_back(wait_text(topology, fabric, wait));
  }
  return Error{
      ErrorCode::kInfeasible,
      fmt::format("deadlock, found in cycle {}: packets wait in a circle in the buffers of "
                  "{}",
                  routers.now(), join(texts, ", "))};
}

}  // namespace pleach
