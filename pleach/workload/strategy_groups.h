// The groups of ranks that communicate under a strategy.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/workload/rank_grid.h"
#include "pleach/workload/strategy.h"
#include "pleach/workload/trace.h"

namespace pleach {

// All groups of a role, ascending; ranks of a group too. Groups of one rank where nothing is cut.
//   role  kData (ranks that share sequences hold the same parameters: they are of one group),
//         kExpertData, kTensor, kSequence, kExpert
std::vector<std::vector<int32_t>> strategy_groups(const Strategy& strategy, const RankGrid& grid,
                                                  FamilyRole role);

// Who sends a stage's outputs to whom, the source first: with `multicast_outputs` the first rank of
// each tensor group of stage `source` to all of the target's, else each rank to its counterpart.
std::vector<std::vector<int32_t>> output_groups(const Strategy& strategy, const RankGrid& grid,
                                                int32_t source, int32_t target);

}  // namespace pleach
