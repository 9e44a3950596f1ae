// Training: what each policy costs for a workload, a strategy and a fabric; the front of the layer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/topology/topology.h"
#include "pleach/training/measured_costs.h"
#include "pleach/training/simulator.h"
#include "pleach/training/trace_network.h"
#include "pleach/workload/memory.h"
#include "pleach/workload/strategy.h"
#include "pleach/workload/workload.h"

namespace pleach {

enum class CostSource : uint8_t {
  kCurves,     // simulated once per size; a group's collectives do not slow other families'
  kFull,       // every transfer shares the links with all others under way
  kAlphaBeta,  // rings of a few numbers; no topology
  kMeasured,   // what collectives of a group took; no topology
};

struct NetworkChoice {
  CostSource source = CostSource::kCurves;
  const Topology* topology = nullptr;  // kCurves, kFull: has at least the strategy's ranks
  FabricOptions fabric = {};
  int64_t alpha_ps = 0;              // kAlphaBeta: per hop
  int64_t overhead_ps = 0;           // of every collective, before its first byte
  double bandwidth_bytes_per_s = 0;  // kAlphaBeta, > 0
  // kAlphaBeta: what families have in place of these, and "pipeline", messages between stages.
  std::map<std::string, RingLink> family_links = {};
  const MeasuredCosts* measured = nullptr;  // kMeasured
};

struct TrainingRequest {
  const Workload& workload;
  const Strategy& strategy;
  NetworkChoice network;
  std::vector<std::string> policies;  // specs: "dear,bucket=25MiB"
  bool settled = false;               // by the plans that these settle on, as ranks replay them
  std::vector<double> slowness = {};  // by rank; empty: 1
  IterationOptions iteration = {};
  // Called before each policy and each measurement, with what is about to be done.
  std::function<void(const std::string&)> progress = {};
};

struct TrainingRow {
  std::string policy;
  std::shared_ptr<const Trace> trace = {};  // what was run
  PolicyNeeds needs = {};
  // It planned by curves, in which families do not see each other, and full costs were run: what
  // is never slower by its plan may be in the run.
  bool planned_on_curves = false;
  // Curves were simulated up to there; what is larger follows their last slope. 0: nothing is.
  int64_t curve_end_bytes = 0;
  TrainingRun run = {};
  int64_t compute_ps = 0;    // of the worker that computes most, in one iteration
  int64_t exposed_ps = 0;    // iteration − compute: communication and pipeline bubbles not hidden
  int64_t bound_ps = 0;      // no synchronous policy is faster (docs/training.md, "The bound")
  double wall_s = 0;         // of the simulation, measurements aside
  double samples_per_s = 0;  // of all replicas; 0: not known, as of a trace
  double tokens_per_s = 0;   // 0: samples are not made of tokens
  double peak_share = 0;     // model operations over the peak of all ranks; 0: not known
  // What the fullest rank holds, with Adam's state, sharded as the policy does. Buckets: what is
  // decided and not finished at one time of the last iteration, and where parameters are freed the
  // largest bucket of them once more, which is computed with. 0 states: not known.
  MemoryUse memory = {};
  // Over all iterations: what switches did that do not carry whatever enters; with full costs.
  std::optional<TraceAdmission> admission = {};
};

// One row per policy.
//   errors  those of build_trace, create_policy, the network and the simulator; kInvalidArgument: a
//           policy that does not fit the strategy's ZeRO stage, slowness that is not one per rank
//           or not positive, a topology with fewer ranks than the strategy
Result<std::vector<TrainingRow>> train(const TrainingRequest& request);

// A trace as it is, without policies (its gradient groups must be empty). bound_ps = compute_ps.
Result<TrainingRow> replay(const Trace& trace, const NetworkChoice& network,
                           const IterationOptions& options);

// One bucket of a row's last iteration, and what kept it.
struct BucketReport {
  std::string group;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string first_layer;
  std::string last_layer;
  int64_t size_bytes = 0;
  int64_t ready_ps = 0;  // times from the iteration's start; negative: in the one before
  int64_t issued_ps = 0;
  int64_t started_ps = 0;
  int64_t finished_ps = 0;
  int64_t exposed_ps = 0;
  // "gradients" (it went when they were there), "policy" (it was held back), or "channel" (behind
  // other buckets), whichever took longest.
  std::string waited_for;
};
std::vector<BucketReport> explain(const TrainingRow& row);

// The row's last iteration as a trace without policies: gates and gradients become the collectives
// that were started, in their order on the wire. Collectives of gradients of the iteration before
// wait for nothing but those in front of them. A second all_gather before backward (PolicyNeeds::
// frees_parameters) keeps its place on the wire; backward does not wait for it.
Trace with_gradient_collectives(const TrainingRow& row);

}  // namespace pleach
