// The iteration in which gradients travel in no time.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/profile.h"
#include "pleach/training/simulator.h"
#include "pleach/training/trace_network.h"

namespace pleach {

struct FreeIteration {
  int64_t iteration_ps = 0;
  std::vector<TrainingProfile> told;  // by gradient group: what its policy is told of the times
};

// Runs the trace until it repeats. Its gradients cost nothing, nor, where asked, do the exchanges
// of experts, which policies can hide too; everything else what `costs` say, whatever else is under
// way. Where no cost is more than the operation ever takes, and nothing but dependencies orders
// operations, no policy's iteration is shorter. Noise is left out.
//   errors  those of `costs` and of simulate_training
Result<FreeIteration> run_without_gradients(const Trace& trace, OperationCosts& costs,
                                            const IterationOptions& options, bool free_exchanges);

}  // namespace pleach
