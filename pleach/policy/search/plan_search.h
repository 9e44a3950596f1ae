// Finds a plan for an iteration: partitions, kinds and order of its collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/policy/plan.h"

namespace pleach {

struct PlanSearchOptions {
  int64_t least_bytes = 0;  // of a collective; 0: 1/256 of the model
  int64_t effort = 0;       // collectives that annealing from a start may place, over all its plans
  bool gathers_last = false;  // no all_gather before all reductions; `known` does that, too
  // By how much all costs may be off, 0 to 90. With a plan that is best on exact costs, forward may
  // wait for a first all_gather that is too large, or the last reductions may be late.
  int64_t margin_percent = 0;
  uint64_t seed = 0;
  // Plans that the one found must not be worse than; legal.
  std::vector<Plan> known = {};
};

// The best of the plans that annealing makes of two starts, and of the known ones; where
// least_bytes > 0 of those whose collectives have as much on the average, as a last bucket may have
// little. The starts are the best of uniform partitions, and of those with an exact one
// (plan_partition.h) for one phase or both, in three orders. The same on every rank, so that nobody
// negotiates.
//   profile, costs  checked; the costs have all_reduce or both halves of it
//   cost            O(2 effort + 10^6) steps and as many calls of the costs at most
//   source          Zhang et al., DeAR, ICDCS 2023, sec. 3, for what may run when
Plan search_plan(const TrainingProfile& profile, const CostModel& costs,
                 const PlanSearchOptions& options);

}  // namespace pleach
