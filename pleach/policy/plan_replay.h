// PlanReplay: the policy that follows a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan.h"

namespace pleach {

// Starts the collectives of a plan in its order, each as soon as it is legal, every iteration.
class PlanReplay : public Policy {
 public:
  // `plan` covers all bytes, or there are none.   cost  O(collectives²)
  PlanReplay(const ParameterSpace& space, const Plan& plan);
  void observe(const PolicyEvent& event) override;
  void decide(int64_t now_ps, PolicyActions& actions) override;

 private:
  bool may_start(std::size_t index);

  const Plan plan_;
  std::vector<int64_t> after_;  // by collective: how many of the plan must have finished before it
  BucketQueue gradients_;       // of the plan's reductions
  std::size_t next_ = 0;
  int64_t started_before_ = 0;  // collectives of earlier iterations
  int64_t finished_ = 0;
};

}  // namespace pleach
