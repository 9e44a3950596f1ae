// The least time that any synchronous policy can take for an iteration.
#pragma once

#include <cstdint>

#include "pleach/policy/profile.h"

namespace pleach {

struct IterationBound {
  int64_t iteration_ps = 0;
  int64_t compute_ps = 0;        // Σ forward + backward
  int64_t communication_ps = 0;  // Σ c_l
  int32_t layer = 0;  // that attains the mixed term; −1 where compute or communication binds
};

// T* = max(Σ ff + Σ bp, Σ c, max_l [Σ_{k≥l} (ff_k + bp_k) + Σ_{k≤l} c_k]), where c_l is the least
// time that layer l's bytes can take on the channel: their number times the least time per byte
// that the costs offer at any size up to the model's, as reduce_scatter + all_gather, as reduce +
// broadcast or as all_reduce. That size is the model's or one of costs.breakpoints(). Exact where
// costs are proportional to bytes; else a lower bound that charges startups only as far as the
// largest useful message cannot avoid them. Costs rounded to whole picoseconds move it by one per
// collective.
//   profile  checked
//   costs    never fall with the size; concave between their breakpoints
//   cost     O(layers + breakpoints)
//   source  the period argument of docs/training.md ("The bound")
IterationBound iteration_bound(const TrainingProfile& profile, const CostModel& costs);

}  // namespace pleach
