// The iteration simulator: runs a trace over a network, with a policy for each gradient group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/wire.h"
#include "pleach/training/trace_network.h"
#include "pleach/training/traffic_classes.h"
#include "pleach/workload/trace.h"

namespace pleach {

struct IterationOptions {
  int32_t most_iterations = 60;  // at least 2 are simulated
  int32_t channel_width = 1;     // collectives of a gradient group under way at once
  // Computation of a node takes 1 + jitter·x times as long, x exponential with mean 1 and drawn for
  // every rank (a worker waits for the slowest of its ranks). 0: none. With jitter there is no
  // steady state: all most_iterations are simulated.
  double jitter = 0;
  uint64_t seed = 0;
  bool keep_spans = false;  // of the iteration that TrainingRun::logs are of
  // What operations are to the network: it tells them apart only where they share links.
  TrafficClasses classes = {};
};

// Why a worker's computation stood still.
struct WorkerTimes {
  int64_t compute_ps = 0;          // busy
  int64_t gradient_wait_ps = 0;    // for parameters: the policies' communication
  int64_t collective_wait_ps = 0;  // for collectives of the trace (tensor, sequence, expert)
  int64_t receive_wait_ps = 0;     // for other stages: pipeline bubbles and messages
  int64_t load_wait_ps = 0;        // for weights or data from outside
  int64_t bubble_wait_ps = 0;      // of receive_wait_ps, while nothing was on its way
  int64_t input_wait_ps = 0;       // of load_wait_ps, for samples
};

// A node of a worker, while it ran: computation, loads, stores, collectives of the trace.
struct IterationSpan {
  int32_t worker = 0;
  int32_t node = 0;
  int64_t begin_ps = 0;
  int64_t end_ps = 0;
};

struct TrainingRun {
  int64_t iteration_ps = 0;  // steady state, or the mean of the last half
  int64_t deviation_ps = 0;  // standard deviation of the iterations averaged; 0 when steady
  bool steady = false;
  int32_t iterations = 0;            // simulated
  int32_t period = 1;                // iterations after which the steady state repeats
  std::vector<WorkerTimes> workers;  // of one iteration, mean of the same ones
  // By gradient group: what the last iteration but one started (it ends in the last one; of a
  // single iteration, what ended in it).
  std::vector<std::vector<HostedCollective>> logs;
  int64_t last_start_ps = 0;  // when that iteration started
  std::vector<IterationSpan> spans;
  int64_t event_count = 0;
};

// Runs iterations until they repeat and every policy has settled. In a trace without gradients no
// worker starts an iteration before all have finished the last one; in others the gates of layers
// see to it that none uses parameters without all workers' gradients.
//   policies  one for each gradient group of the trace, in its order
//   errors    those of the network; kInvalidArgument: an illegal decision of a policy, or a trace
//             that stops (names the worker and the nodes that wait)
//   cost      O(E log E), E nodes and collectives of all iterations   threads  safe: no shared
//   state
Result<TrainingRun> simulate_training(const Trace& trace, std::span<Policy* const> policies,
                                      TraceNetwork& network, const IterationOptions& options = {});

// The profile that a gradient group's policy is created with.
TrainingProfile profile_of(const GradientGroup& group);

}  // namespace pleach
