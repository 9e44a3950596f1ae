// Setup: from a spec to policies that fit how a training shards its state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/policy.h"

namespace pleach {

// The costs that a training of a ZeRO stage offers its policies: above stage 0 no rank holds all
// reduced gradients, so that there is no all_reduce.
class StageCosts : public CostModel {
 public:
  // `costs` outlives it.
  StageCosts(const CostModel& costs, int32_t zero_stage)
      : costs_(costs), scatters_(zero_stage > 0) {}
  bool has(CollectiveKind kind) const override {
    return !(scatters_ && kind == CollectiveKind::kAllReduce) && costs_.has(kind);
  }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return costs_.time_ps(kind, size_bytes);
  }
  std::vector<int64_t> breakpoints(CollectiveKind kind) const override {
    return costs_.breakpoints(kind);
  }

 private:
  const CostModel& costs_;
  const bool scatters_;
};

// A policy that fits, and what it asks of the training loop.
struct FittedPolicy {
  std::unique_ptr<const CostModel> costs;  // that it sees
  std::unique_ptr<Policy> policy;
  PolicyNeeds needs;
};

// The policies of one spec, for all gradient groups of a training. Safe to share.
class PolicySetup {
 public:
  //   zero_stage  0 to 3
  //   settles     what fit gives follows the plan that the policy settles on, as ranks of a real
  //               training do
  //   errors      kInvalidArgument: unknown policy, or one that all_reduces in a stage that leaves
  //               gradients scattered (options are checked by fit)
  static Result<PolicySetup> create(std::string_view spec, int32_t zero_stage,
                                    bool settles = false);

  // The collectives whose costs it looks at: those that it must have, or, where it makes the best
  // of what there is, all those of gradients.
  std::span<const CollectiveKind> collectives() const;
  bool plans_by_costs() const { return policy_.plans_by_costs || settles_; }
  // The stage by which the training's state is sharded under it.
  int32_t zero_stage() const { return std::max(zero_stage_, policy_.zero_stage); }
  // The policy of a group.
  //   setting  as create_policy's; its costs are those of stage 0
  //   errors   those of create_policy; kInvalidArgument: it keeps all parameters in stage 3, or is
  //            to settle and does not
  Result<FittedPolicy> fit(const PolicySetting& setting) const;

 private:
  PolicySetup(std::string_view spec, const PolicyDescriptor& policy,
              std::vector<CollectiveKind> collectives, int32_t zero_stage, bool settles)
      : spec_(spec),
        policy_(policy),
        collectives_(std::move(collectives)),
        zero_stage_(zero_stage),
        settles_(settles) {}

  std::string spec_;
  const PolicyDescriptor& policy_;
  std::vector<CollectiveKind> collectives_;  // that it must have
  int32_t zero_stage_;
  bool settles_;
};

// all_reduce and its halves.
std::span<const CollectiveKind> gradient_collectives();

}  // namespace pleach
