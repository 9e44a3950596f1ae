#include "pleach/planning/list_planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace pleach {
namespace {

// Of a group that the topology or the algorithm does not allow.
bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kInfeasible || error.code == ErrorCode::kUnsupported;
}

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
  // Of the same group, whatever the size.
  using Key = std::tuple<std::optional<CollectiveKind>, std::optional<Rank>, std::vector<NodeId>>;

  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    std::size_t& first = first_[{request.collective, request.root, request.participants}];
    std::optional<Error> refusal;
    for (; first < planners_.size(); ++first) {
      if (!planners_[first]->takes(request)) {
        continue;
      }
      Result<Choice> choice = planners_[first]->choose(request);
      if (choice) {
        return std::move(choice->schedule);
      }
      if (!is_refusal(choice.error())) {
        return choice.error();
      }
      refusal = choice.error();
    }
    if (refusal) {
      return *refusal;
    }
    PLEACH_ASSIGN(choice, planners_.back()->choose(request));
    return std::move(choice.schedule);
  }

  const std::vector<std::unique_ptr<Planner>> planners_;
  std::map<Key, std::size_t> first_;  // of the planners that have not refused
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
