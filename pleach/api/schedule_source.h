// Where schedules come from: an algorithm's name, or a file that anybody wrote.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Synthesises, or reads and proves, one schedule for `topology`; every transfer has a route.
// `source` is an algorithm's spec, a file or `auto`, as make_planner() takes it.
//   errors  those of make_planner and of the planner
Result<std::shared_ptr<const Schedule>> obtain_schedule(const Topology& topology,
                                                        std::string_view source,
                                                        const ScheduleRequest& request = {},
                                                        const PlannerOptions& options = {});

// Reads and proves the schedule of a file for ranks that reach each other in ways of their own: its
// nodes and routes may be of any topology.
//   errors  those of read_schedule; kInvalidArgument with the first violation, or where it is not
//           what is asked for
Result<std::shared_ptr<const Schedule>> obtain_schedule_without_routes(
    const std::string& path, const ScheduleRequest& request = {});

// "0,1,4-7": the nodes of a group of ranks, by rank of the topology, in this order.
Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text);
// Sets the root of a request for a collective that has one: a number is a rank, counted within the
// participants (all ranks where none are given); else the name of an I/O node, which takes part
// behind the ranks.
//   errors  kInvalidArgument: neither, or an I/O node where the collective allows none
Status choose_root(const Topology& topology, std::string_view text, ScheduleRequest& request);

// "0,4,8;1,5,9": several groups that do the collective at once. Before its ranks a group may have a
// root, "3:0-7;left2:8-15", as choose_root() takes it; "io:0-7" is as many groups as there are I/O
// nodes, each with one as its root. A rank may be in several groups only where all of those have
// I/O nodes as roots; a group has two participants at least.
Result<std::vector<ScheduleRequest>> parse_groups(const Topology& topology, std::string_view text,
                                                  CollectiveKind collective);

}  // namespace pleach
