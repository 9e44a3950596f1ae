#include "pleach/api/schedule_source.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/ranges.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/planning/file_planner.h"

namespace pleach {

Result<std::shared_ptr<const Schedule>> obtain_schedule(const Topology& topology,
                                                        std::string_view source,
                                                        const ScheduleRequest& request,
                                                        const PlannerOptions& options) {
  PLEACH_ASSIGN(planner, make_planner(topology, source, options));
  PLEACH_ASSIGN(choice, planner->choose(request));
  return std::move(choice.schedule);
}

Result<std::shared_ptr<const Schedule>> obtain_schedule_without_routes(
    const std::string& path, const ScheduleRequest& request) {
  PLEACH_ASSIGN(schedule, read_schedule(path));
  PLEACH_TRY(check_asked(schedule, path, request));
  PLEACH_TRY(check_proof(schedule, path, nullptr));
  return std::make_shared<const Schedule>(std::move(schedule));
}

Result<std::vector<NodeId>> parse_group(const Topology& topology, std::string_view text) {
  const auto ranks = topology.rank_nodes();
  PLEACH_ASSIGN(numbers, parse_ranges(text, "rank", count_of(ranks) - 1));
  std::vector<NodeId> nodes;
  for (const int32_t rank : numbers) {
    nodes.push_back(ranks[at(rank)]);
  }
  return nodes;
}

Result<std::vector<std::vector<NodeId>>> parse_groups(const Topology& topology,
                                                      std::string_view text) {
  std::vector<std::vector<NodeId>> groups;
  std::map<NodeId, std::size_t> group_of;
  for (const std::string_view part : split(text, ';')) {
    PLEACH_ASSIGN(group, parse_group(topology, trim(part)));
    for (const NodeId node : group) {
      const auto [other, is_new] = group_of.try_emplace(node, groups.size());
      if (!is_new) {
        return invalid(fmt::format("node {} is in group {} and in group {}",
                                   topology.node(node).name, other->second, groups.size()));
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace pleach
