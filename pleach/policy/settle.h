// Settle: from a policy, which decides as things happen, to a plan, which all ranks can follow
// though they do not see the same things at the same times.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/plan.h"
#include "pleach/policy/policy.h"

namespace pleach {

// A collective of atoms [first, end).
struct AtomCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int32_t first = 0;
  int32_t end = 0;
  bool operator==(const AtomCollective&) const = default;
};

// One iteration's collectives, in the order in which every rank starts them.
struct SettledPlan {
  std::vector<AtomCollective> collectives;
  bool step_at_once = false;  // no forward starts before all parameters are in place
  int64_t iteration_ps = 0;   // what an iteration takes in the rehearsal
  // Of the collectives, of step_at_once, and of the layers' tensors and atoms that they are for.
  // Ranks that have the same may follow it together.
  uint64_t hash = 0;
};

struct SettleOptions {
  uint64_t seed = 0;  // of policies that draw
  int32_t most_iterations = 1000;
};

// Rehearses the policy to its steady state and takes an iteration of that. What the policy would
// decide as things happen (priorities, credits, blocks) becomes one static order: the one in which
// it would decide if everything took the time that profile and costs say.
//   errors  those of create_policy and rehearse; kUnsupported, naming the policy: what it starts
//           depends on more than an iteration (horovod), it did not settle within most_iterations,
//           it frees parameters, or cuts exchanges or moves computation (fsdp, lancet)
Result<SettledPlan> settle_plan(std::string_view spec, const TrainingProfile& profile,
                                const CostModel& costs, const SettleOptions& options = {});

// Whether ranks can train by it: every atom in one all_reduce, or in a reduce_scatter and later in
// an all_gather, or in a reduce and later in a broadcast.
//   errors  kInvalidArgument naming the collective, or the atom
Status check_plan(const ParameterSpace& space, std::span<const AtomCollective> plan);
// The same collectives, by bytes. `plan` has passed check_plan.
Plan plan_of_bytes(const ParameterSpace& space, std::span<const AtomCollective> plan);

}  // namespace pleach
