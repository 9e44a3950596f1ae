#include "pleach/api/schedule_source.h"

#include <fmt/core.h>

#include <algorithm>

#include "pleach/base/index.h"
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
  const int64_t last_rank = static_cast<int64_t>(ranks.size()) - 1;
  std::vector<NodeId> nodes;
  for (const std::string_view piece : split(text, ',')) {
    const std::size_t dash = piece.find('-');
    PLEACH_ASSIGN(first, parse_integer(piece.substr(0, dash), "rank", 0, last_rank));
    int64_t last = first;
    if (dash != std::string_view::npos) {
      PLEACH_SET(last, parse_integer(piece.substr(dash + 1), "rank", first, last_rank));
    }
    for (int64_t rank = first; rank <= last; ++rank) {
      const NodeId node = ranks[at(rank)];
      if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) {
        return invalid(fmt::format("rank {} is twice in {}", rank, pleach::quoted(text)));
      }
      nodes.push_back(node);
    }
  }
  return nodes;
}

}  // namespace pleach
