// Improves a plan by simulated annealing.
#pragma once

#include <cstdint>

#include "pleach/policy/search/plan_grid.h"

namespace pleach {

struct AnnealingOptions {
  int64_t least_bytes = 1;    // of a collective that it makes
  int64_t effort = 0;         // collectives placed, over all plans that it tries
  int64_t enough_ps = 0;      // stops at an iteration of this time
  bool may_convert = false;   // between an all_reduce and its two halves
  bool gathers_last = false;  // no all_gather before all reductions
  uint64_t seed = 1;
};

// The best plan met on a walk that moves, cuts and joins pieces: a change that does harm is taken
// with a probability that falls with the harm and with the effort spent. Never worse than `pieces`,
// which must be legal; the same for the same arguments on every rank.
//   source  Kirkpatrick et al., Science 220 (1983)
PlanPieces anneal(const PlanGrid& grid, PlanPieces pieces, const AnnealingOptions& options);

}  // namespace pleach
