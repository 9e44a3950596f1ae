// Where schedules come from: an algorithm's name, or a file that anybody wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct ScheduleRequest {
  std::string algorithm;  // "multitree,step_rule=published", or a file's path
  CollectiveKind collective = CollectiveKind::kAllReduce;
  bool collective_given = true;      // false: a file's own collective is welcome
  std::vector<NodeId> participants;  // empty: all rank nodes (a file names its own)
  Rank root = {0};
};

// Whether the text names a file: it has a directory or a schedule format's extension.
bool names_schedule_file(std::string_view algorithm);

// Synthesises, or reads and proves, a schedule for `topology`; every transfer has a route.
//   errors  those of synthesize and read_schedule; kInvalidArgument with the first violation, or
//           when the file's collective is not the one asked for
Result<Schedule> obtain_schedule(const Topology& topology, const ScheduleRequest& request);

// "0,1,4-7": the nodes of a group of ranks, by rank of the topology, in this order.
Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text);

}  // namespace pleach
