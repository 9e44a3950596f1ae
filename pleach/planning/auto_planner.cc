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
#include "pleach/planning/least_time.h"
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

// Whether they are one schedule that two algorithms wrote: on a star all that send straight to
// everybody do.
bool are_alike(const Schedule& one, const Schedule& other) {
  const auto is_alike = [&](const Transfer& mine, const Transfer& theirs) {
    Transfer same_route = theirs;
    same_route.route = mine.route;
    return mine == same_route && (mine.route == kNoRoute) == (theirs.route == kNoRoute) &&
           (mine.route == kNoRoute ||
            std::ranges::equal(one.routes[mine.route], other.routes[theirs.route]));
  };
  return one.period == other.period && one.phase_steps == other.phase_steps &&
         one.fold_order == other.fold_order && one.symmetry == other.symmetry &&
         one.chunks == other.chunks && std::ranges::equal(one.transfers, other.transfers, is_alike);
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

constexpr int64_t kMostWrittenOut = 1'000'000;  // transfers, translates included

// A schedule to choose from, and what is known of its time before it is simulated.
class Candidate {
 public:
  explicit Candidate(std::shared_ptr<const Schedule> schedule) : schedule_(std::move(schedule)) {}

  const std::shared_ptr<const Schedule>& schedule() const { return schedule_; }
  // What so many of them take at once at the least, in no more segments than that; 0 where it would
  // take long to know, as of large symmetric schedules, which are simulated by one rank.
  Result<int64_t> least_ps(const Topology& topology, int32_t count, int32_t most_segments,
                           int64_t size_bytes) {
    if (schedule_->transfer_count() > kMostWrittenOut) {
      return 0;
    }
    auto known = least_.find({count, most_segments});
    if (known == least_.end()) {
      const std::vector<std::shared_ptr<const Schedule>> all(at(count), schedule_);
      PLEACH_ASSIGN(least, LeastTime::of(topology, all, most_segments, false));
      known = least_.emplace(std::pair(count, most_segments), std::move(least)).first;
    }
    return known->second.time_ps(size_bytes);
  }

 private:
  std::shared_ptr<const Schedule> schedule_;
  std::map<std::pair<int32_t, int32_t>, LeastTime> least_;
};

// What one takes alone, and two of which the second begins when the first would be half over: no
// less than one and a half.
double sum_ps(int64_t alone_ps, int64_t both_ps) {
  const auto alone = static_cast<double>(alone_ps);
  return alone + std::max(1.5 * alone, static_cast<double>(both_ps));
}

// Of a schedule that the model cannot run, where it may run another: with a stream through a
// switch, say, or routes for which it has too few VCs.
bool is_refusal(const Error& error) {
  return error.code == ErrorCode::kUnsupported || error.code == ErrorCode::kInfeasible;
}

class AutoPlanner final : public Planner {
 public:
  AutoPlanner(const Topology& topology, PlannerOptions options)
      : Planner(topology, std::move(options)) {
    if (const auto model = network_models().entry_of(this->options().model)) {
      obeys_links_ = (*model)->obeys_links;
      shares_links_ = (*model)->shares_links;
    }
  }

  bool does(CollectiveKind collective) const override { return !specs_for(collective).empty(); }

 private:
  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    if (request.size_bytes < 1) {
      return invalid(
          fmt::format("{} chooses by the size of the buffer, and none is given", kAutoAlgorithm));
    }
    PLEACH_ASSIGN(all, candidates(request));
    if (all->size() == 1) {
      return all->front().schedule();
    }
    PLEACH_ASSIGN(timed, time(*all, request.size_bytes));
    const auto best = std::ranges::min_element(timed, {}, &Timed::time_ps);
    const double enough_ps = options().as_good * best->time_ps;
    std::shared_ptr<const Schedule> taken = (*all)[best->place].schedule();
    for (const Timed& one : timed) {
      const auto& other = (*all)[one.place].schedule();
      if (options().as_good > 1 && one.time_ps <= enough_ps &&
          connection_count(*other) < connection_count(*taken)) {
        taken = other;
      }
    }
    return taken;
  }

  // How long a candidate takes, alone, and as the options have it.
  struct Timed {
    std::size_t place = 0;
    int64_t alone_ps = 0;
    double time_ps = 0;
  };

  // Those that may be taken, the fastest alone first; at least one. They are simulated in the order
  // of what they take at the least, for as long as that is no more than enough.
  //   errors  the model refuses all: the last refusal
  Result<std::vector<Timed>> time(std::vector<Candidate>& all, int64_t size_bytes) const {
    std::vector<std::pair<double, std::size_t>> least;
    for (std::size_t place = 0; place < all.size(); ++place) {
      PLEACH_ASSIGN(time_ps, least_ps(all[place], size_bytes));
      least.emplace_back(time_ps, place);
    }
    std::ranges::sort(least);
    double enough_ps = std::numeric_limits<double>::infinity();
    std::vector<Timed> timed;
    Status refused = ok();
    for (const auto& [least_ps, place] : least) {
      if (least_ps > enough_ps) {
        break;
      }
      Timed one{.place = place};
      if (Status status = simulate_one(all[place], size_bytes, enough_ps, one); !status) {
        if (!is_refusal(status.error())) {
          return status.error();
        }
        refused = std::move(status);
        continue;
      }
      enough_ps = std::min(enough_ps, options().as_good * one.time_ps);
      timed.push_back(one);
    }
    if (timed.empty()) {
      return refused.error();
    }
    std::ranges::sort(timed, {},
                      [](const Timed& one) { return std::pair(one.alone_ps, one.place); });
    return timed;
  }

  // Sets the times; one that is more than enough may be less than it takes.
  Status simulate_one(Candidate& candidate, int64_t size_bytes, double enough_ps,
                      Timed& one) const {
    const Job job = {candidate.schedule(), size_bytes, 0};
    SimulationOptions simulation = options().simulation;
    if (segment_count()) {
      simulation.segment_count = *segment_count();
      PLEACH_ASSIGN(result, simulate(options().model, topology(), {&job, 1}, simulation));
      one.alone_ps = result.finish_ps;
    } else {
      PLEACH_ASSIGN(best, find_best_segments(topology(), {&job, 1}, segment_search(1)));
      simulation.segment_count = best.segment_count;
      one.alone_ps = best.simulation.finish_ps;
    }
    one.time_ps = static_cast<double>(one.alone_ps);
    if (options().counts_on_another) {
      PLEACH_ASSIGN(both_ps, least_ps(candidate, 2, simulation.segment_count, size_bytes));
      one.time_ps = sum_ps(one.alone_ps, both_ps);
      if (one.time_ps <= enough_ps) {
        const std::array<Job, 2> jobs = {
            {job, {candidate.schedule(), size_bytes, one.alone_ps / 2}}};
        PLEACH_ASSIGN(both, simulate(options().model, topology(), jobs, simulation));
        one.time_ps = static_cast<double>(one.alone_ps + both.finish_ps);
      }
    }
    return ok();
  }

  // Of the time of so many candidates at once; 0 where the model is bound by nothing.
  Result<int64_t> least_ps(Candidate& candidate, int32_t count, int32_t most_segments,
                           int64_t size_bytes) const {
    const bool is_bound = obeys_links_ && (count == 1 || shares_links_);
    return is_bound ? candidate.least_ps(topology(), count, most_segments, size_bytes) : 0;
  }

  // Of the time as the options have it.
  Result<double> least_ps(Candidate& candidate, int64_t size_bytes) const {
    int32_t segments = segment_count().value_or(1);
    if (!segment_count()) {
      const Job job = {candidate.schedule(), size_bytes, 0};
      PLEACH_SET(segments, most_segments({&job, 1}, segment_search(1)));
    }
    PLEACH_ASSIGN(alone_ps, least_ps(candidate, 1, segments, size_bytes));
    if (!options().counts_on_another) {
      return static_cast<double>(alone_ps);
    }
    PLEACH_ASSIGN(both_ps, least_ps(candidate, 2, segments, size_bytes));
    return sum_ps(alone_ps, both_ps);
  }

  Result<std::vector<Candidate>*> candidates(const ScheduleRequest& request) {
    const CollectiveKind collective = request.collective.value_or(CollectiveKind::kAllReduce);
    const Rank root = request.root.value_or(Rank{0});
    std::vector<Candidate>& known = known_[{collective, root.value, request.participants}];
    if (known.empty()) {
      PLEACH_ASSIGN(schedules, candidate_schedules(topology(), request, options()));
      for (auto& schedule : schedules) {
        known.emplace_back(std::move(schedule));
      }
    }
    return &known;
  }

  bool obeys_links_ = false, shares_links_ = false;  // the model
  std::map<std::tuple<CollectiveKind, int32_t, std::vector<NodeId>>, std::vector<Candidate>> known_;
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
    if (!made) {
      refusals.push_back(made.error().message);
      continue;
    }
    const auto is_made = [&](const auto& known) { return are_alike(*known, *made); };
    if (std::ranges::none_of(found, is_made)) {
      found.push_back(std::make_shared<const Schedule>(std::move(*made)));
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
