#include "pleach/planning/auto_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
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
    std::vector<Timed> timed;
    for (const auto& candidate : *all) {
      PLEACH_ASSIGN(one, time(candidate, request.size_bytes));
      timed.push_back(std::move(one));
    }
    if (options().counts_on_another) {
      PLEACH_TRY(add_another(timed, request.size_bytes));
    }
    const auto best = std::ranges::min_element(timed, {}, &Timed::time_ps);
    const double enough_ps = options().as_good * static_cast<double>(best->time_ps);
    std::shared_ptr<const Schedule> taken = best->schedule;
    for (const Timed& one : timed) {
      if (options().as_good > 1 && static_cast<double>(one.time_ps) <= enough_ps &&
          connection_count(*one.schedule) < connection_count(*taken)) {
        taken = one.schedule;
      }
    }
    return taken;
  }

  // A candidate, and how long it takes.
  struct Timed {
    std::shared_ptr<const Schedule> schedule;
    int32_t segment_count = 1;
    int64_t time_ps = 0;
  };

  Result<Timed> time(const std::shared_ptr<const Schedule>& candidate, int64_t size_bytes) const {
    const Job job = {candidate, size_bytes, 0};
    if (!segment_count()) {
      PLEACH_ASSIGN(best, best_segments({&job, 1}, 1));
      return Timed{candidate, best.segment_count, best.simulation.finish_ps};
    }
    SimulationOptions simulation = options().simulation;
    simulation.segment_count = *segment_count();
    PLEACH_ASSIGN(result, simulate(options().model, topology(), {&job, 1}, simulation));
    return Timed{candidate, *segment_count(), result.finish_ps};
  }

  // Adds to the times alone those of two, for as long as that can make one the best: the fastest
  // alone first, and two take no less than one and a half.
  Status add_another(std::vector<Timed>& timed, int64_t size_bytes) const {
    std::ranges::stable_sort(timed, {}, &Timed::time_ps);
    double enough_ps = std::numeric_limits<double>::infinity();
    auto next = timed.begin();
    for (; next != timed.end() && 2.5 * static_cast<double>(next->time_ps) <= enough_ps; ++next) {
      const std::array<Job, 2> jobs = {
          {{next->schedule, size_bytes, 0}, {next->schedule, size_bytes, next->time_ps / 2}}};
      SimulationOptions simulation = options().simulation;
      simulation.segment_count = next->segment_count;
      PLEACH_ASSIGN(both, simulate(options().model, topology(), jobs, simulation));
      next->time_ps += both.finish_ps;
      enough_ps = std::min(enough_ps, options().as_good * static_cast<double>(next->time_ps));
    }
    timed.erase(next, timed.end());
    return ok();
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
