// Rehearsal: one worker, one channel, one policy: the exact model of what a policy costs when all
// ranks are alike. Benchmarks and tests use it; the iteration simulator agrees with it.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/wire.h"

namespace pleach {

struct RehearsalOptions {
  int32_t most_iterations = 100;  // ≥ 1
  int32_t channel_width = 1;      // ≥ 1: collectives on the wire at once, each as fast as alone
  bool keep_log = false;          // of the last iteration
};

struct Rehearsal {
  int64_t iteration_ps = 0;           // from forward to forward, in the steady state
  int64_t compute_ps = 0;             // of it, forward and backward
  bool steady = false;                // false: the mean of the last half of most_iterations
  int32_t iterations = 0;             // simulated until the steady state was seen
  int32_t period = 1;                 // iterations after which the steady state repeats
  std::vector<HostedCollective> log;  // those that have not ended with the iteration, too
};

// Runs iterations until the timeline of one (relative to its start) repeats and the policy has
// settled.
//   errors  kInvalidArgument: a bad profile, an illegal decision, a policy that stops (names the
//           layer waiting), iterations that take over kLongestPs together, none, a channel
//           without width
//   cost    O(iterations · (layers + collectives) log collectives)   threads  safe: no shared state
Result<Rehearsal> rehearse(const TrainingProfile& profile, const CostModel& costs, Policy& policy,
                           const RehearsalOptions& options = {});

}  // namespace pleach
