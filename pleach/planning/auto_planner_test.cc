#include "pleach/planning/auto_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "pleach/collective/verify.h"
#include "pleach/planning/best_segments.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/host_model.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

int64_t time_of(const Topology& topology, std::shared_ptr<const Schedule> schedule,
                int64_t size_bytes, std::optional<int32_t> segment_count) {
  const Job job = {std::move(schedule), size_bytes, 0};
  const auto simulation =
      segment_count ? simulate("flow", topology, {&job, 1}, {.segment_count = *segment_count})
                    : find_best_segments(topology, {&job, 1})->simulation;
  EXPECT_TRUE(simulation) << simulation.error().message;
  return simulation->finish_ps;
}

// No algorithm of the registry whose replicas agree is faster.
TEST(AutoPlanner, TakesTheFastest) {
  for (const char* spec : {"ring:5", "fully_connected:4,overhead=1us,latency=2us", "mesh:2x3",
                           "switch:4,header=1000", "fully_connected:2"}) {
    const Topology topology = topology_of(spec);
    for (const std::optional<int32_t> segments :
         {std::optional<int32_t>(1), std::optional<int32_t>()}) {
      const auto planner = make_planner(topology, "auto", {.segment_count = segments});
      ASSERT_TRUE(planner);
      for (const Kind collective : kAllCollectives) {
        if (!(*planner)->does(collective)) {
          continue;
        }
        for (const int64_t size_bytes : {int64_t{720}, int64_t{720} << 12}) {
          SCOPED_TRACE(std::string(spec) + " " + std::string(to_text(collective)) + " " +
                       std::to_string(size_bytes));
          const auto choice =
              (*planner)->choose({.collective = collective, .size_bytes = size_bytes});
          ASSERT_TRUE(choice) << choice.error().message;
          EXPECT_TRUE(verify(*choice->schedule, &topology).bitwise_replicated);
          const int64_t time_ps =
              time_of(topology, choice->schedule, size_bytes, choice->segment_count);
          for (const Algorithm* algorithm : algorithms()) {
            const auto other =
                synthesize({.topology = topology, .participants = {}, .collective = collective},
                           algorithm->name);
            if (other && verify(*other, nullptr).bitwise_replicated) {
              EXPECT_LE(time_ps,
                        time_of(topology, std::make_shared<Schedule>(*other), size_bytes, segments))
                  << algorithm->name;
            }
          }
        }
      }
    }
  }
}

TEST(AutoPlanner, TakesOtherAlgorithmsForOtherSizes) {
  const Topology topology = topology_of("switch:4,bandwidth=1GB/s,header=10000,packet=1GiB");
  const auto planner = make_planner(topology, "auto");
  ASSERT_TRUE(planner);
  const auto algorithm = [&](int64_t size_bytes) {
    const auto choice = (*planner)->choose({.size_bytes = size_bytes});
    EXPECT_TRUE(choice);
    return choice->schedule->provenance.algorithm + "," + choice->schedule->provenance.options;
  };
  EXPECT_EQ(algorithm(1000), "recursive_doubling,");
  EXPECT_EQ(algorithm(1'000'000), "halving_doubling,");
}

// One exchange folds by rank, so that all ranks have the same bits.
TEST(AutoPlanner, TakesOneExchangeWhereMessagesTakeLong) {
  for (const std::string spec : {"fully_connected:2", "fully_connected:4"}) {
    const Topology topology = topology_of(spec + ",latency=10us");
    const auto choice = (*make_planner(topology, "auto"))->choose({.size_bytes = 1000});
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->schedule->step_count(), 1) << spec;
    EXPECT_TRUE(verify(*choice->schedule, nullptr).bitwise_replicated);
  }
}

TEST(AutoPlanner, GivesEqualRequestsOneSchedule) {
  const Topology topology = topology_of("ring:4");
  const auto planner = make_planner(topology, "auto");
  ASSERT_TRUE(planner);
  const ScheduleRequest request = {
      .collective = Kind::kBroadcast, .root = Rank{2}, .size_bytes = 100};
  EXPECT_EQ((*planner)->choose(request)->schedule, (*planner)->choose(request)->schedule);
  EXPECT_EQ((*planner)->choose(request)->schedule->root, Rank{2});
}

// Ranks run nothing that a switch has to add up.
TEST(AutoPlanner, KnowsWhatRanksRun) {
  const Topology topology = topology_of("switch:8,reduce,multicast");
  for (const bool only_what_ranks_run : {false, true}) {
    const auto planner = make_planner(
        topology, "auto", {.wants_certificate = false, .only_what_ranks_run = only_what_ranks_run});
    ASSERT_TRUE(planner);
    const auto choice = (*planner)->choose({.size_bytes = 1 << 20});
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->schedule->provenance.algorithm == "in_switch", !only_what_ranks_run);
  }
}

// What a segment costs a rank is in no topology whose messages cost nothing.
TEST(AutoPlanner, CutsNothingOnNetworksBelowWhatASegmentCosts) {
  const Topology topology = topology_of("switch:4");
  for (const char* algorithm : {"auto", "ring", "tree"}) {
    for (const int64_t size_bytes : {int64_t{16}, int64_t{20'000}, int64_t{1} << 22}) {
      const auto choose = [&](bool is_network) {
        const PlannerOptions options = {.segment_count = std::nullopt, .wants_certificate = false};
        const auto planner =
            make_planner(topology, algorithm, is_network ? on_network(options) : options);
        const auto choice =
            (*planner)->choose({.collective = Kind::kBroadcast, .size_bytes = size_bytes});
        EXPECT_TRUE(choice) << choice.error().message;
        return choice->segment_count;
      };
      EXPECT_GE(std::max<int64_t>(size_bytes / 32768, 1), choose(true))
          << algorithm << " " << size_bytes;
      EXPECT_GE(choose(false), size_bytes > 64 ? 16 : 1) << algorithm << " " << size_bytes;
    }
  }
}

// A ring has one connection for each rank, and steps that cost next to nothing here; segments that
// cost nothing let others pass.
TEST(AutoPlanner, TakesFewConnectionsAndManySegmentsOfWhatIsAsGood) {
  const Topology topology = topology_of("switch:8,latency=1us,overhead=1us,bandwidth=25MB/s");
  const PlannerOptions exact = {.segment_count = std::nullopt, .wants_certificate = false};
  const auto choose = [&](const PlannerOptions& options) {
    return *(*make_planner(topology, "auto", options))->choose({.size_bytes = 8 << 20});
  };
  const Choice best = choose(exact), taken = choose(on_network(exact));
  EXPECT_EQ(best.schedule->provenance.algorithm, "halving_doubling");
  EXPECT_EQ(taken.schedule->provenance.algorithm, "ring");
  EXPECT_GT(taken.segment_count, best.segment_count);
  EXPECT_LE(time_of(topology, taken.schedule, 8 << 20, taken.segment_count) * 50,
            time_of(topology, best.schedule, 8 << 20, best.segment_count) * 51);
}

// What counts on a network: one alone, and two, of which the second begins halfway.
int64_t time_of_two(const Topology& topology, const std::shared_ptr<const Schedule>& schedule,
                    int64_t size_bytes, int64_t least_segment_bytes) {
  const Job job = {schedule, size_bytes, 0};
  const auto alone = find_best_segments(topology, {&job, 1}, {.least_bytes = least_segment_bytes});
  EXPECT_TRUE(alone) << alone.error().message;
  const int64_t alone_ps = alone->simulation.finish_ps;
  const Job jobs[] = {job, {schedule, size_bytes, alone_ps / 2}};
  const auto both =
      simulate(kDefaultNetworkModel, topology, jobs, {.segment_count = alone->segment_count});
  EXPECT_TRUE(both) << both.error().message;
  return alone_ps + both->finish_ps;
}

// What it doesn't simulate it would not have taken.
TEST(AutoPlanner, TakesTheFastestOfTwoUnderWay) {
  const PlannerOptions options =
      on_network({.segment_count = std::nullopt, .wants_certificate = false});
  for (const std::string spec : {"switch:6", "leaf_spine:2x2", "mesh:2x3", "fully_connected:4"}) {
    const Topology topology = topology_of(spec + ",latency=2us,overhead=3us,bandwidth=1GB/s");
    const auto planner = make_planner(topology, "auto", options);
    for (const Kind collective : {Kind::kAllReduce, Kind::kBroadcast, Kind::kAllToAll}) {
      const auto candidates = candidate_schedules(topology, {.collective = collective}, options);
      ASSERT_TRUE(candidates) << candidates.error().message;
      for (const int64_t size_bytes : {int64_t{240}, int64_t{24} << 10, int64_t{24} << 20}) {
        const auto choice =
            (*planner)->choose({.collective = collective, .size_bytes = size_bytes});
        ASSERT_TRUE(choice) << choice.error().message;
        const auto time_ps = [&](const std::shared_ptr<const Schedule>& schedule) {
          return time_of_two(topology, schedule, size_bytes, options.least_segment_bytes);
        };
        const int64_t taken_ps = time_ps(choice->schedule);
        for (const auto& candidate : *candidates) {
          EXPECT_LE(taken_ps * 100, time_ps(candidate) * 101)
              << spec << " " << to_text(collective) << " " << size_bytes << ": "
              << choice->schedule->provenance.algorithm << ", not "
              << candidate->provenance.algorithm;
        }
      }
    }
  }
}

// On a star a group of one level, where all send straight to all, is what direct writes.
TEST(AutoPlanner, TriesAScheduleOnce) {
  const Topology topology = topology_of("switch:6");
  const auto candidates = candidate_schedules(topology, {}, {});
  ASSERT_TRUE(candidates) << candidates.error().message;
  std::map<std::string, int> count;
  for (const auto& candidate : *candidates) {
    ++count[candidate->provenance.algorithm];
  }
  EXPECT_EQ(count["direct"], 2) << "in one step and in two";
  EXPECT_EQ(count["hierarchical"], 0);
}

// Ranks that halve and double exchange with others in every step: two such collectives meet where
// one alone never does. In rings everybody receives from one rank only.
TEST(AutoPlanner, CountsOnAnotherUnderWay) {
  const Topology topology = *hosts_topology({.rank_bandwidth_bytes_per_s = 1'000'000'000,
                                             .host_bandwidth_bytes_per_s = 1'000'000'000,
                                             .latency_ps = 10'000'000},
                                            {25'000'000, 20'000'000, "tail_drop"},
                                            std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, "hosts");
  PlannerOptions options = on_network({.segment_count = std::nullopt, .wants_certificate = false});
  const auto algorithm = [&](bool counts_on_another, int64_t size_bytes) {
    options.counts_on_another = counts_on_another;
    const auto planner = make_planner(topology, "auto", options);
    return (*planner)->choose({.size_bytes = size_bytes})->schedule->provenance.algorithm;
  };
  EXPECT_EQ(algorithm(false, 128 << 10), "halving_doubling");
  EXPECT_EQ(algorithm(true, 128 << 10), "ring");
  EXPECT_EQ(algorithm(true, 1 << 10), algorithm(false, 1 << 10)) << "messages are short";
}

// A model that has no streams through switches, or too few VCs for some routes, may run others.
TEST(AutoPlanner, LeavesOutWhatTheModelRefuses) {
  const auto choose = [](const char* spec, const char* model, int32_t landing_places) {
    const Topology topology = topology_of(spec);
    const auto planner = make_planner(
        topology, "auto", {.model = model, .simulation = {.landing_places = landing_places}});
    const auto choice = (*planner)->choose({.size_bytes = 8 << 10});
    return choice ? choice->schedule->provenance.algorithm : choice.error().message;
  };
  EXPECT_EQ(choose("switch:4,reduce,multicast", "flow", 0), "in_switch");
  EXPECT_EQ(choose("switch:4,reduce,multicast", "flit", 0), "multitree");
  EXPECT_EQ(choose("dragonfly:2x2x2", "flit", 0), "direct");
  EXPECT_EQ(choose("dragonfly:2x2x2", "flit,vcs=1", 0), "multitree");
  EXPECT_EQ(choose("ring:8", "flit", 2),
            "landing places '2': the flit model has credits of its own, flit,vcs=...,buffer=...");
  EXPECT_EQ(choose("ring:8", "flit,vcs=65", 0),
            "network model flit: option 'vcs': value '65' is outside 1 to 64");
}

TEST(AutoPlanner, SaysWhyNot) {
  const Topology topology = topology_of("ring:4");
  const auto planner = make_planner(topology, "auto");
  ASSERT_TRUE(planner);
  EXPECT_EQ((*planner)->choose({}).error().message,
            "auto chooses by the size of the buffer, and none is given");
  const auto refused =
      (*planner)->choose({.participants = {NodeId{0}, NodeId{9}}, .size_bytes = 100});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("no algorithm does all_reduce on ring:4: participant 1"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace pleach
