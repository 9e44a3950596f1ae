#include "pleach/planning/auto_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/collective/program.h"
#include "pleach/collective/symmetry.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

// The specs to try of algorithms that do the collective.
std::vector<std::string> specs_for(CollectiveKind collective) {
  std::vector<std::string> specs;
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm_does(algorithm->name, collective)) {
      specs.push_back(algorithm->name);
      for (const std::string& options : algorithm->variants) {
        specs.push_back(algorithm->name + "," + options);
      }
    }
  }
  return specs;
}

Result<Schedule> make(const SynthesisRequest& request, const std::string& spec,
                      const PlannerOptions& options) {
  PLEACH_ASSIGN(schedule, synthesize(request, spec));
  // Only after an all_reduce do several ranks hold the same sum.
  if (request.collective == CollectiveKind::kAllReduce &&
      !verify(schedule, nullptr).bitwise_replicated) {
    return invalid(spec + ": ranks would end with other last bits");
  }
  if (options.only_what_ranks_run) {
    PLEACH_TRY(check_switchless(schedule));
  }
  return std::move(schedule);
}

// Ranks that a rank sends to, at the most.
int32_t connection_count(const Schedule& schedule) {
  std::map<NodeId, int32_t> rank_of;
  for (const NodeId node : schedule.participants) {
    rank_of.emplace(node, count_of(rank_of));
  }
  std::set<std::pair<int32_t, int32_t>> pairs;
  for (const Transfer& transfer : schedule.transfers) {
    const auto source = rank_of.find(transfer.source), target = rank_of.find(transfer.target);
    if (source == rank_of.end() || target == rank_of.end()) {
      continue;  // a switch's
    }
    if (schedule.symmetry) {  // every rank does as rank 0
      const Translation translation(schedule.symmetry->dimensions);
      pairs.emplace(0, translation.subtract(target->second, source->second));
    } else {
      pairs.emplace(source->second, target->second);
    }
  }
  std::vector<int32_t> targets(at(schedule.rank_count()));
  for (const auto& [source, target] : pairs) {
    ++targets[at(source)];
  }
  return targets.empty() ? 0 : *std::ranges::max_element(targets);
}

class AutoPlanner final : public Planner {
 public:
  AutoPlanner(const Topology& topology, PlannerOptions options)
      : Planner(topology, std::move(options)) {}

  bool does(CollectiveKind collective) const override { return !specs_for(collective).empty(); }

 private:
  using Schedules = std::vector<std::shared_ptr<const Schedule>>;

  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    if (request.size_bytes < 1) {
      return invalid(
          fmt::format("{} chooses by the size of the buffer, and none is given", kAutoAlgorithm));
    }
    PLEACH_ASSIGN(all, candidates(request));
    if (all->size() == 1) {
      return all->front();
    }
    std::vector<int64_t> times_ps;
    for (const auto& candidate : *all) {
      PLEACH_ASSIGN(time_ps, time(candidate, request.size_bytes));
      times_ps.push_back(time_ps);
    }
    const auto best = std::ranges::min_element(times_ps) - times_ps.begin();
    const double enough_ps = options().as_good * static_cast<double>(times_ps[at(best)]);
    std::shared_ptr<const Schedule> taken = (*all)[at(best)];
    for (std::size_t index = 0; options().as_good > 1 && index < all->size(); ++index) {
      if (static_cast<double>(times_ps[index]) <= enough_ps &&
          connection_count(*(*all)[index]) < connection_count(*taken)) {
        taken = (*all)[index];
      }
    }
    return taken;
  }

  Result<int64_t> time(const std::shared_ptr<const Schedule>& candidate, int64_t size_bytes) const {
    const Job job = {candidate, size_bytes, 0};
    if (!segment_count()) {
      PLEACH_ASSIGN(best, best_segments({&job, 1}, 1));
      return best.simulation.finish_ps;
    }
    SimulationOptions simulation = options().simulation;
    simulation.segment_count = *segment_count();
    PLEACH_ASSIGN(result, simulate(options().model, topology(), {&job, 1}, simulation));
    return result.finish_ps;
  }

  Result<const Schedules*> candidates(const ScheduleRequest& request) {
    const CollectiveKind collective = request.collective.value_or(CollectiveKind::kAllReduce);
    const Rank root = request.root.value_or(Rank{0});
    Schedules& known = known_[{collective, root.value, request.participants}];
    if (known.empty()) {
      PLEACH_SET(known, candidate_schedules(topology(), request, options()));
    }
    return &known;
  }

  std::map<std::tuple<CollectiveKind, int32_t, std::vector<NodeId>>, Schedules> known_;
};

}  // namespace

Result<std::vector<std::shared_ptr<const Schedule>>> candidate_schedules(
    const Topology& topology, const ScheduleRequest& request, const PlannerOptions& options) {
  const CollectiveKind collective = request.collective.value_or(CollectiveKind::kAllReduce);
  std::vector<std::shared_ptr<const Schedule>> found;
  std::vector<std::string> refusals;
  for (const std::string& spec : specs_for(collective)) {
    Result<Schedule> made = make({.topology = topology,
                                  .participants = request.participants,
                                  .collective = collective,
                                  .root = request.root.value_or(Rank{0}),
                                  .wants_certificate = options.wants_certificate},
                                 spec, options);
    if (made) {
      found.push_back(std::make_shared<const Schedule>(std::move(*made)));
    } else {
      refusals.push_back(made.error().message);
    }
  }
  if (found.empty()) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("no algorithm does {} on {}: {}", to_text(collective), topology.name(),
                             join(refusals, "; "))};
  }
  return found;
}

std::unique_ptr<Planner> make_auto_planner(const Topology& topology, PlannerOptions options) {
  return std::make_unique<AutoPlanner>(topology, std::move(options));
}

}  // namespace pleach
