// Which nodes may take part in a collective.
#pragma once

#include "pleach/base/collective_kind.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Whether I/O nodes may be the root of a collective: of a broadcast, which begins with what they
// hold, and of a reduce, which adds to it.
inline bool allows_io_root(CollectiveKind collective) {
  return collective == CollectiveKind::kBroadcast || collective == CollectiveKind::kReduce;
}

// Whether a node may be `rank` of a collective with this root: it hosts a rank, or is an I/O node
// and the root.
inline bool may_take_part(const Node& node, Rank rank, CollectiveKind collective, Rank root) {
  return node.kind == NodeKind::kRank ||
         (node.kind == NodeKind::kIo && rank == root && allows_io_root(collective));
}

}  // namespace pleach
