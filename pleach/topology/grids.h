// Grids of ranks, which I/O nodes may hang on.
#pragma once

#include <span>

#include "pleach/base/id.h"
#include "pleach/topology/topology.h"

namespace pleach {

// An I/O node that passes no traffic through: it is on no way but its own.
inline bool hangs_on(const Node& node) {
  return node.kind == NodeKind::kIo && !node.forwards;
}

// Whether a topology is a grid of ranks and nothing hangs on it.
bool is_bare_grid(const Topology& topology);

// Whether `nodes`, which are distinct, are all ranks of a topology that is a grid.
bool are_whole_grid(const Topology& topology, std::span<const NodeId> nodes);

}  // namespace pleach
