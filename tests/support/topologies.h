// Topologies by their specs, for tests.
#pragma once

#include <string>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/topology/shapes.h"

namespace pleach::support {

inline Topology topology_of(const std::string& spec) {
  Result<Topology> topology = parse_topology(spec);
  PLEACH_CHECK(topology, topology ? "" : topology.error().message.c_str());
  return std::move(topology).value();
}

}  // namespace pleach::support
