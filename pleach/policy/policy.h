// Policy: decides when which gradients travel. Pure: timestamped events in, decisions out; no
// clock, no I/O. The iteration simulator and real training can drive the same object. The registry.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/policy/profile.h"

namespace pleach {

// Layers without tensors are not reported.
enum class EventKind : uint8_t {
  kGradientReady,       // index: layer; its gradients are complete on every rank
  kForwardNeeded,       // index: layer; every rank has come to its forward
  kBackwardNeeded,      // index: layer; every rank has come to its (first) backward
  kCollectiveFinished,  // index: number of the collective, counted from 0 over the whole training
  kWake,                // index: 0; the time that the policy asked for has come
};

struct PolicyEvent {
  EventKind kind = EventKind::kWake;
  int64_t time_ps = 0;
  int32_t index = 0;
};

// A bucket on its way: whole atoms. all_reduce, reduce_scatter and reduce need the gradients of
// every byte of the range, all_gather a finished reduce_scatter of every byte and broadcast a
// finished reduce; each byte travels once an iteration (twice in an all_gather, where the policy
// frees parameters). A reduce brings every atom to its owner, who may be another one for each.
struct PolicyCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  ByteRange range;
  bool operator==(const PolicyCollective&) const = default;
};

// Whether the collective leaves what forward needs on every rank: the second half of a pair, or
// both of them in one.
inline bool distributes(CollectiveKind kind) {
  return !reduces(kind) || kind == CollectiveKind::kAllReduce;
}

struct PolicyActions {
  // Numbered from 0 over the whole training, in this order, in which they also start, the same ones
  // on all ranks: one at a time, or as many as the channel is wide. They may finish in any order.
  std::vector<PolicyCollective> start;
  int64_t wake_ps = -1;  // kWake then, later than now; ≥ 0 replaces an earlier request
};

// What a policy asks of the training loop, fixed at its creation.
struct PolicyNeeds {
  // Parameters are updated together, after backward: no forward starts before all are in place.
  bool step_at_once = false;
  // Parameters are dropped after forward, and gathered once more for backward.
  bool frees_parameters = false;
  // An all_to_all and the computation beside it are cut into this many parts that overlap.
  std::vector<int32_t> exchange_parts = {};  // by layer; empty: 1
  // Weight gradients of a layer may be computed during the all_to_alls of earlier layers.
  bool defers_weight_gradients = false;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual PolicyNeeds needs() const { return {}; }
  // What it starts in every iteration, in this order; empty where that is not known beforehand.
  virtual std::span<const PolicyCollective> plan() const { return {}; }
  // Takes note of a fact. Facts of one time come in any order, before decide().
  virtual void observe(const PolicyEvent& event) = 0;
  // Decides after all facts of an instant; called again at the same time if zero-length collectives
  // finish at once. Must not repeat what it has started.
  virtual void decide(int64_t now_ps, PolicyActions& actions) = 0;
  // False while the policy still tries settings: its iterations are no steady state yet.
  virtual bool settled() const { return true; }
};

struct PolicySetting {
  const TrainingProfile& profile;  // checked; both outlive the policy
  const CostModel& costs;
  uint64_t seed = 0;
};

struct PolicyDescriptor {
  std::string name;
  std::string summary;
  std::string source;  // paper and section
  std::vector<OptionDescriptor> options;
  std::vector<CollectiveKind> collectives;  // what the cost model must have; but for collectives_of
  int32_t zero_stage = 0;                   // what it shards whatever the training's own stage says
  bool plans_by_costs = false;  // what it does depends on how long the costs say things take
  bool settles = true;  // false: what it starts depends on a clock that knows of no iterations
  // Where options decide, what the cost model must have.
  std::vector<CollectiveKind> (*collectives_of)(const Options& options) = nullptr;
  Result<std::unique_ptr<Policy>> (*create)(const PolicySetting& setting, const Options& options);
};

// What the cost model must have for a policy with these options.
inline std::vector<CollectiveKind> collectives_of(const PolicyDescriptor& policy,
                                                  const Options& options) {
  return policy.collectives_of != nullptr ? policy.collectives_of(options) : policy.collectives;
}

Registry<PolicyDescriptor> policies();

// "dear,bucket=25MiB" → a policy.
//   errors  kInvalidArgument: unknown policy or option, a bad profile, costs so high that those of
//           all pieces of gradients may add up to over kLongestPs; kUnsupported: the costs lack a
//           collective that the policy needs
Result<std::unique_ptr<Policy>> create_policy(std::string_view spec, const PolicySetting& setting);

}  // namespace pleach
