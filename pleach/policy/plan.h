// Plan: the collectives of one iteration, in the order on the wire, and what they cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/policy/policy.h"

namespace pleach {

// Every byte is in one all_reduce, or in one reduce_scatter and, later, in one all_gather, or in
// one reduce and, later, in one broadcast.
using Plan = std::vector<PolicyCollective>;

// An all_reduce per bucket, in their order.
Plan all_reduce_plan(std::span<const ByteRange> buckets);
// A reduce_scatter per group, last group first; in decoupled_plan then an all_gather per group,
// first group first.
//   groups  in forward order
//   source  Zhang et al., DeAR, ICDCS 2023: decoupled all_reduce
Plan scatter_plan(std::span<const ByteRange> groups);
Plan decoupled_plan(std::span<const ByteRange> groups);
// The same with a reduce and a broadcast for each group.
Plan owned_plan(std::span<const ByteRange> groups);

// When layers yield and need their bytes. All communication of an iteration lies between the start
// of its backward and the forward of the last layer that owns parameters, so an iteration is: heads
// (a layer's gradients come `ready_ps` after the start of backward), one channel, and tails
// (`rest_ps` of computation from a layer's forward on).
struct PlanTimes {
  explicit PlanTimes(const TrainingProfile& profile);
  std::vector<int64_t> ready_ps;  // by layer, since the start of backward
  std::vector<int64_t> rest_ps;   // by layer: forward of it and of all later ones
  int64_t compute_ps = 0;
};

// Iteration time of a legal plan in the steady state: what rehearse() finds, in one pass.
//   source  the one-machine problem with heads and tails: Carlier, EJOR 11 (1982), sec. 1
int64_t plan_time_ps(const TrainingProfile& profile, const CostModel& costs, const Plan& plan);

}  // namespace pleach
