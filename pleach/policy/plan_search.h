// Finds a plan for an iteration: partitions, kinds and order of its collectives.
#pragma once

#include <cstdint>

#include "pleach/policy/plan.h"

namespace pleach {

struct PlanSearchOptions {
  int64_t least_bytes = 0;  // of a collective; 0: 1/256 of the model
  int64_t effort = 0;       // collectives that annealing may place, over all plans that it tries
  uint64_t seed = 0;
};

// The best of uniform partitions in three orders, improved by annealing, and of the plans of dear,
// ddp and mg_wfbp with their default options: never worse than those, unless least_bytes > 0
// forbids them. The same on every rank, so that nobody negotiates.
//   profile, costs  checked; the costs have all_reduce or both halves of it
//   cost            O(effort + 10^6) steps and as many calls of the costs at most
//   source          Zhang et al., DeAR, ICDCS 2023, sec. 3, for what may run when
Plan search_plan(const TrainingProfile& profile, const CostModel& costs,
                 const PlanSearchOptions& options);

}  // namespace pleach
