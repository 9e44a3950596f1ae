// Leaves: which ranks hang on which switch, on networks where each hangs on one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct Leaves {
  std::vector<NodeId> switches;             // ascending
  std::vector<std::vector<int32_t>> ranks;  // by switch, in the order of nodes; as many on each

  int32_t switch_count() const { return count_of(switches); }
  int32_t ranks_per_switch() const { return count_of(ranks.front()); }
};

// Empty where a participant has other neighbours than one switch, or switches have different
// numbers of participants.   cost  O(ranks · log)
std::optional<Leaves> find_leaves(const Topology& topology, std::span<const NodeId> participants);

// Whether the leaves make a BiGraph: every switch of the lower half has a link to every one of the
// upper half and back, and no two of one half have any.
bool are_bigraph(const Topology& topology, const Leaves& leaves);

}  // namespace pleach
