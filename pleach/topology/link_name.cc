#include "pleach/topology/link_name.h"

#include <fmt/format.h>

namespace pleach {

std::string link_name(const Topology& topology, const Link& link) {
  return fmt::format("{}->{}", topology.node(link.source).name, topology.node(link.target).name);
}

std::string link_name(const Topology& topology, LinkId link) {
  return link_name(topology, topology.link(link));
}

}  // namespace pleach
