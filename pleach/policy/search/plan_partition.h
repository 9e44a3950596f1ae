// The best partition of one phase of an iteration, by dynamic programming.
#pragma once

#include <cstdint>

#include "pleach/policy/search/plan_grid.h"

namespace pleach {

// Cuts considered: of a finer grid, cells are joined to at least this part of the model.
inline constexpr int64_t kMostPartitionCells = 300;

// Cuts the grid so that its phase, with a channel of its own, is shortest: reductions, one after
// the other from the last cell as gradients come, end first; all_gathers, one after the other from
// the first cell, leave least time from their start to the end of forward. Both are one recurrence
// over the first cell of the pieces that reach to the end of the model,
//   f(i) = min_j cost(i, j) + max(f(j), wait(i)),
// with wait = ready_ps of a reduction and, since tails mirror heads, rest_ps of an all_gather. So
// the two partitions together are the best plan whose all_gathers follow its last reduction.
//   least_bytes  of a piece, unless it is the whole model
//   returns      pieces in the order on the wire: backward for reductions, forward for all_gathers
//   cost         O(min(cells, kMostPartitionCells)²) steps and calls of the costs
//   source       Shi et al., MG-WFBP, INFOCOM 2019, sec. IV, for the problem; Carlier, EJOR 11
//                (1982), sec. 1, for the mirror
PlanPieces cut_optimally(const PlanGrid& grid, CollectiveKind kind, int64_t least_bytes);

}  // namespace pleach
