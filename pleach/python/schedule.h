// A schedule as Python holds it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/collective/schedule.h"
#include "pleach/planning/planner.h"
#include "pleach/python/values.h"
#include "pleach/topology/topology.h"

namespace pleach::python {

// Not changed any more, and shared with what runs or times it.
struct SharedSchedule {
  std::shared_ptr<const Schedule> value;
  bool is_proved = false;  // on some topology
};

// Raises what keeps the schedule from running on the topology: a VerificationError where it has not
// been proved and is not correct, an InvalidArgumentError where it is one for another topology.
void require_fit(const SharedSchedule& schedule, const Topology& topology);

// What a schedule is asked to do; what is none is the planner's choice. `group`: nodes, by rank.
ScheduleRequest request_of(const std::optional<std::string>& collective,
                           const std::optional<std::vector<int32_t>>& group,
                           std::optional<int32_t> root, int64_t size_bytes);

}  // namespace pleach::python
