#include "pleach/topology/link_name.h"

#include <fmt/format.h>

namespace pleach {

std::string link_name(const Topology& topology, LinkId link) {
  const Link& ends = topology.link(link);
  return fmt::format("{}->{}", topology.node(ends.source).name, topology.node(ends.target).name);
}

}  // namespace pleach
