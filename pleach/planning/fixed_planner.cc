#include "pleach/planning/fixed_planner.h"

#include <map>
#include <string>
#include <tuple>

#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

class FixedPlanner final : public Planner {
 public:
  FixedPlanner(const Topology& topology, std::string_view algorithm_spec, PlannerOptions options)
      : Planner(topology, std::move(options)), algorithm_(algorithm_spec) {}

  bool does(CollectiveKind collective) const override {
    return algorithm_does(algorithm_, collective);
  }

 private:
  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    const CollectiveKind collective = request.collective.value_or(CollectiveKind::kAllReduce);
    const Rank root = request.root.value_or(Rank{0});
    std::weak_ptr<const Schedule>& known = known_[{collective, root.value, request.participants}];
    if (auto schedule = known.lock()) {
      return schedule;
    }
    PLEACH_ASSIGN(made, synthesize({.topology = topology(),
                                    .participants = request.participants,
                                    .collective = collective,
                                    .root = root,
                                    .wants_certificate = options().wants_certificate},
                                   algorithm_));
    auto schedule = std::make_shared<const Schedule>(std::move(made));
    known = schedule;
    return schedule;
  }

  using Key = std::tuple<CollectiveKind, int32_t, std::vector<NodeId>>;

  const std::string algorithm_;
  std::map<Key, std::weak_ptr<const Schedule>> known_;
};

}  // namespace

Result<std::unique_ptr<Planner>> make_fixed_planner(const Topology& topology,
                                                    std::string_view algorithm_spec,
                                                    PlannerOptions options) {
  return std::unique_ptr<Planner>(
      std::make_unique<FixedPlanner>(topology, algorithm_spec, std::move(options)));
}

}  // namespace pleach
