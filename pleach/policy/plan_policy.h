// PlanPolicy: the policy that follows a plan.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "pleach/policy/plan_queue.h"
#include "pleach/policy/policy.h"

namespace pleach {

// Starts the collectives of a plan in its order, each as soon as it is legal, every iteration.
class PlanPolicy : public Policy {
 public:
  // `plan` as PlanQueue wants it.
  PlanPolicy(const TrainingProfile& profile, Plan plan, PolicyNeeds needs = {})
      : queue_(ParameterSpace(profile), std::move(plan)), needs_(std::move(needs)) {}
  PolicyNeeds needs() const override { return needs_; }
  std::span<const PolicyCollective> plan() const override { return queue_.plan(); }
  void observe(const PolicyEvent& event) override;
  void decide(int64_t now_ps, PolicyActions& actions) override;

  // As PlanQueue's.
  void repeat() { queue_.repeat(); }
  // Follows another plan from the next iteration's gradients on.
  void replace(Plan plan) { queue_.replace(std::move(plan)); }

 private:
  PlanQueue queue_;
  PolicyNeeds needs_;
};

}  // namespace pleach
