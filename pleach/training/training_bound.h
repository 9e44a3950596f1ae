// The least iteration of a training: below what no synchronous policy is.
#pragma once

#include <cstdint>

#include "pleach/base/result.h"
#include "pleach/training/training.h"

namespace pleach {

struct TrainingBoundRequest {
  const Trace& trace;  // without anything that policies ask for
  const Strategy& strategy;
  const NetworkChoice& network;
  TraceCosts& costs;    // of the trace
  int64_t free_ps = 0;  // its iteration without gradients, under those costs
  const IterationOptions& iteration;
};

// The greater of each gradient group's exact bound and the iteration in which gradients travel in
// no time. With full costs both charge only what an operation takes at the least, however it shares
// links: that of curves, with all groups of a family at the same time, may be more. Whatever
// policies may reorder counts by the streams that are busiest.
//   errors  those of the costs and the simulator
//   source  docs/training.md, "The bound"
Result<int64_t> training_bound(const TrainingBoundRequest& request);

}  // namespace pleach
