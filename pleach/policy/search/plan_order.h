// Orders of pieces by a rule: starting points of the search for a plan.
#pragma once

#include <cstdint>
#include <span>

#include "pleach/policy/search/plan_grid.h"

namespace pleach {

// Which of the pieces that may go when the channel is free goes first.
enum class PlanOrder : uint8_t {
  kForwardPriority,  // the lower one in forward order; of one place, the reduction
  kReduceFirst,      // any reduction; all_gathers fill the gaps
  kGatherLast,       // no all_gather before the last reduction has ended, as in DeAR
};

// Cuts the grid from its end into pieces of at least `piece_bytes`, none of less than
// `least_bytes` unless it is the whole model. In backward order.
PlanPieces cut_backward(const PlanGrid& grid, CollectiveKind kind, int64_t piece_bytes,
                        int64_t least_bytes);
// The same from its begin. In forward order.
PlanPieces cut_forward(const PlanGrid& grid, CollectiveKind kind, int64_t piece_bytes,
                       int64_t least_bytes);

// The order in which the rule serves the pieces, never leaving the channel idle while one may go.
//   reductions  all_reduces or reduce_scatters of the whole grid, in backward order
//   gathers     all_gathers of the whole grid in forward order, or none
//   cost        O(pieces²)
PlanPieces order_pieces(const PlanGrid& grid, std::span<const PlanPiece> reductions,
                        std::span<const PlanPiece> gathers, PlanOrder order);

}  // namespace pleach
