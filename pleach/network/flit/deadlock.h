// What a deadlock of routers is called.
#pragma once

#include <optional>

#include "pleach/base/result.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/routers.h"
#include "pleach/topology/topology.h"

namespace pleach {

// kInfeasible, with the channels in whose buffers packets wait in a circle; none where there is no
// such circle. Between cycles.   cost  that of Routers::deadlock()
std::optional<Error> deadlock_of(const Topology& topology, const Fabric& fabric,
                                 const Routers& routers);

}  // namespace pleach
