// Where schedules come from: an algorithm's name, or a file that anybody wrote.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Synthesises, or reads and proves, one schedule for `topology`; every transfer has a route.
// `source` is an algorithm's spec or a file, as make_planner() takes it.
//   errors  those of make_planner and of the planner
Result<std::shared_ptr<const Schedule>> obtain_schedule(const Topology& topology,
                                                        std::string_view source,
                                                        const ScheduleRequest& request = {});

// "0,1,4-7": the nodes of a group of ranks, by rank of the topology, in this order.
Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text);

}  // namespace pleach
