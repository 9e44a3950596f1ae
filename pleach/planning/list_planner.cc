#include "pleach/planning/list_planner.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pleach {
namespace {

class ListPlanner final : public Planner {
 public:
  ListPlanner(const Topology& topology, std::vector<std::unique_ptr<Planner>> planners,
              PlannerOptions options)
      : Planner(topology, std::move(options)), planners_(std::move(planners)) {}

  bool does(CollectiveKind collective) const override {
    return std::ranges::any_of(planners_,
                               [&](const auto& planner) { return planner->does(collective); });
  }
  bool takes(const ScheduleRequest& request) const override {
    return std::ranges::any_of(planners_,
                               [&](const auto& planner) { return planner->takes(request); });
  }

 private:
  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    const auto first = std::ranges::find_if(
        planners_, [&](const auto& planner) { return planner->takes(request); });
    Planner& planner = first == planners_.end() ? *planners_.back() : **first;
    PLEACH_ASSIGN(choice, planner.choose(request));
    return std::move(choice.schedule);
  }

  const std::vector<std::unique_ptr<Planner>> planners_;
};

}  // namespace

Result<std::unique_ptr<Planner>> make_list_planner(const Topology& topology,
                                                   std::span<const std::string> sources,
                                                   PlannerOptions options) {
  if (sources.size() == 1) {
    return make_planner(topology, sources.front(), std::move(options));
  }
  PlannerOptions own = options;
  own.segment_count = 1;  // this planner finds the number of segments
  std::vector<std::unique_ptr<Planner>> planners;
  for (const std::string& source : sources) {
    planners.emplace_back();
    PLEACH_SET(planners.back(), make_planner(topology, source, own));
  }
  return std::unique_ptr<Planner>(
      std::make_unique<ListPlanner>(topology, std::move(planners), std::move(options)));
}

}  // namespace pleach
