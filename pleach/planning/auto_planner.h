// The planner that tries all algorithms.
#pragma once

#include <memory>
#include <vector>

#include "pleach/planning/planner.h"

namespace pleach {

// Simulates what every registered algorithm writes, with the options that it says are worth trying,
// at the size that is asked for, and takes the fastest; the one registered first on a tie. Those
// that the topology does not allow do not count, nor those that the model refuses, nor all_reduces
// after which replicas may differ in their last bits (Verification::bitwise_replicated). What takes
// longer at the least (least_time.h) than another does is not simulated. Groups are each planned as
// if alone.
//   choose errors  kInvalidArgument: no size is given; kInfeasible: no algorithm does it here, with
//                  why not; where the model refuses all, its last refusal
//   cost           of the first choice of a collective, participants and root: all syntheses; of
//                  each: the simulations
std::unique_ptr<Planner> make_auto_planner(const Topology& topology, PlannerOptions options);

// What it takes one of, whatever the size; at least one, in the order of the algorithms, of which
// the first is named where several write the same.
//   errors  kInfeasible: no algorithm does it here, with why not
Result<std::vector<std::shared_ptr<const Schedule>>> candidate_schedules(
    const Topology& topology, const ScheduleRequest& request, const PlannerOptions& options);

}  // namespace pleach
