#include "pleach/topology/switch_ports.h"

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

std::vector<int32_t> first_ports(const Topology& topology, std::span<const LinkId> links) {
  std::vector<int32_t> firsts = {0};
  for (const LinkId link : links) {
    firsts.push_back(firsts.back() + topology.link(link).lanes);
  }
  return firsts;
}

}  // namespace

SwitchPorts::SwitchPorts(const Topology& topology, NodeId node)
    : links_in_(topology.links_in(node)),
      links_out_(topology.links_out(node)),
      first_input_(first_ports(topology, links_in_)),
      first_output_(first_ports(topology, links_out_)) {
  PLEACH_CHECK(topology.node(node).kind == NodeKind::kSwitch, "only switches have ports");
}

int32_t SwitchPorts::port_of(std::span<const LinkId> links, const Firsts& firsts, LinkLane lane) {
  const auto place = std::ranges::lower_bound(links, lane.link) - links.begin();
  PLEACH_CHECK(place < std::ssize(links) && links[static_cast<std::size_t>(place)] == lane.link,
               "a link that the switch does not have");
  const int32_t port = firsts[at(place)] + lane.lane;
  PLEACH_CHECK(lane.lane >= 0 && port < firsts[at(place) + 1], "a lane that the link lacks");
  return port;
}

LinkLane SwitchPorts::lane_of(std::span<const LinkId> links, const Firsts& firsts, int32_t port) {
  PLEACH_CHECK(port >= 0 && port < firsts.back(), "a port that the switch does not have");
  const auto place = std::ranges::upper_bound(firsts, port) - firsts.begin() - 1;
  return {links[at(place)], port - firsts[at(place)]};
}

}  // namespace pleach
