#include "pleach/planning/planner.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pleach/collective/formats.h"
#include "pleach/network/model.h"
#include "pleach/planning/list_planner.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

std::unique_ptr<Planner> planner_of(const Topology& topology, const std::string& source,
                                    PlannerOptions options = {}) {
  auto planner = make_planner(topology, source, std::move(options));
  EXPECT_TRUE(planner) << (planner ? "" : planner.error().message);
  return std::move(*planner);
}

const std::vector<NodeId> kLeft = {{0}, {1}, {2}, {3}};
const std::vector<NodeId> kRight = {{4}, {5}, {6}, {7}};

TEST(Planner, GivesEqualRequestsOneSchedule) {
  const Topology topology = topology_of("ring:8");
  const auto planner = planner_of(topology, "ring");
  const auto first = planner->choose({.collective = Kind::kAllGather, .participants = kLeft});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->schedule->collective, Kind::kAllGather);
  EXPECT_EQ(first->schedule->participants, kLeft);
  EXPECT_EQ(first->segment_count, 1);
  const struct {
    ScheduleRequest request;
    bool same;
  } cases[] = {
      {{.collective = Kind::kAllGather, .participants = kLeft}, true},
      {{.collective = Kind::kAllGather, .participants = kLeft, .size_bytes = 1 << 20}, true},
      {{.collective = Kind::kAllGather, .participants = kRight}, false},
      {{.collective = Kind::kReduceScatter, .participants = kLeft}, false},
  };
  for (const auto& [request, same] : cases) {
    const auto other = planner->choose(request);
    ASSERT_TRUE(other);
    EXPECT_EQ(other->schedule == first->schedule, same);
  }
}

TEST(Planner, RootsAreApart) {
  const Topology topology = topology_of("ring:4");
  const auto planner = planner_of(topology, "ring");
  for (const int32_t root : {0, 3, 0}) {
    const auto choice = planner->choose({.collective = Kind::kBroadcast, .root = Rank{root}});
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->schedule->root, Rank{root});
  }
}

// Two groups at once share links, so that their best number of segments is a common one.
TEST(Planner, FindsTheBestSegmentsOfGroupsTogether) {
  const Topology topology = topology_of("mesh:8,latency=1us");
  const auto planner = planner_of(topology, "ring", {.segment_count = std::nullopt});
  EXPECT_EQ(planner->segment_count(), std::nullopt);
  const std::vector<std::vector<NodeId>> groups = {kLeft, kRight};
  const int64_t size_bytes = 16 << 20;
  const auto choice = planner->choose_together(Kind::kBroadcast, groups, size_bytes);
  ASSERT_TRUE(choice) << choice.error().message;
  ASSERT_EQ(choice->schedules.size(), 2U);
  const std::vector<Job> jobs = {{choice->schedules[0], size_bytes, 0},
                                 {choice->schedules[1], size_bytes, 0}};
  EXPECT_GT(choice->segment_count, 1);
  std::map<int64_t, int32_t> best;  // by time, the fewest segments
  for (int32_t segments = 1; segments <= 64; segments *= 2) {
    const auto result = simulate("flow", topology, jobs, {.segment_count = segments});
    ASSERT_TRUE(result) << result.error().message;
    best.emplace(result->finish_ps, segments);
  }
  EXPECT_EQ(choice->time_ps, best.begin()->first);
  EXPECT_EQ(choice->segment_count, best.begin()->second);
  const auto tiny = planner->choose_together(Kind::kBroadcast, groups, 1);
  ASSERT_TRUE(tiny);
  EXPECT_EQ(tiny->segment_count, 1);
}

TEST(Planner, DoesWhatItsAlgorithmDoes) {
  const Topology topology = topology_of("ring:4");
  EXPECT_TRUE(planner_of(topology, "ring")->does(Kind::kAllReduce));
  EXPECT_FALSE(planner_of(topology, "ring")->does(Kind::kAllToAll));
  const auto unknown = planner_of(topology, "rnig");
  EXPECT_FALSE(unknown->does(Kind::kAllReduce));
  EXPECT_EQ(unknown->choose({}).error().message.substr(0, 24), "unknown algorithm 'rnig'");
}

TEST(Planner, AFileSaysItselfWhatItDoes) {
  const Topology topology = topology_of("ring:8");
  const auto written =
      planner_of(topology, "ring")
          ->choose({.collective = Kind::kBroadcast, .participants = kLeft, .root = Rank{2}});
  ASSERT_TRUE(written);
  const std::string path = testing::TempDir() + "planner_test.json";
  ASSERT_TRUE(write_schedule(*written->schedule, path));
  const auto planner = planner_of(topology, path);
  EXPECT_TRUE(planner->does(Kind::kBroadcast));
  EXPECT_FALSE(planner->does(Kind::kAllReduce));
  const auto own = planner->choose({});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(*own->schedule, *written->schedule);
  const auto same =
      planner->choose({.collective = Kind::kBroadcast, .participants = kLeft, .root = Rank{2}});
  ASSERT_TRUE(same);
  EXPECT_EQ(same->schedule, own->schedule);
  const struct {
    ScheduleRequest request;
    std::string message;
  } cases[] = {
      {{.collective = Kind::kReduce}, ": a schedule of broadcast, not of reduce"},
      {{.participants = kRight}, ": its participants are not those asked for"},
      {{.root = Rank{0}}, ": its root is 2, not 0"},
  };
  for (const auto& [request, message] : cases) {
    const auto refused = planner->choose(request);
    ASSERT_FALSE(refused) << message;
    EXPECT_EQ(refused.error().message, path + message);
  }
  // A file is proved for the topology at hand.
  const Topology small = topology_of("ring:3");
  EXPECT_FALSE(planner_of(small, path)->choose({}));
  std::filesystem::remove(path);
  EXPECT_FALSE(make_planner(topology, path));
}

TEST(Planner, RefusesNoSegments) {
  const Topology topology = topology_of("ring:4");
  EXPECT_EQ(make_planner(topology, "ring", {.segment_count = 0}).error().message,
            "segments 0: must be at least 1");
}

// A file for the all_reduce of the left, an algorithm for all else.
TEST(Planner, TakesTheFirstOfAListThatDoes) {
  const Topology topology = topology_of("ring:8");
  const std::string path = testing::TempDir() + "planner_list_test.json";
  const auto left = planner_of(topology, "multitree")->choose({.participants = kLeft});
  ASSERT_TRUE(left) << left.error().message;
  ASSERT_TRUE(write_schedule(*left->schedule, path));
  const auto made = make_list_planner(topology, std::vector<std::string>{path, "ring"}, {});
  ASSERT_TRUE(made) << made.error().message;
  const struct {
    ScheduleRequest request;
    std::string algorithm;
  } cases[] = {{{.participants = kLeft}, "multitree"},
               {{.participants = kRight}, "ring"},
               {{.collective = Kind::kAllGather, .participants = kLeft}, "ring"}};
  for (const auto& [request, algorithm] : cases) {
    const auto choice = (*made)->choose(request);
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->schedule->provenance.algorithm, algorithm);
  }
  EXPECT_TRUE((*made)->does(Kind::kBroadcast));
  EXPECT_FALSE((*made)->does(Kind::kAllToAll));
  EXPECT_FALSE((*made)->choose({.collective = Kind::kAllToAll}));

  const auto alone = make_list_planner(topology, std::vector<std::string>{path}, {});
  ASSERT_TRUE(alone);
  EXPECT_FALSE((*alone)->choose({.participants = kRight}));
  EXPECT_FALSE(make_list_planner(topology, std::vector<std::string>{"ring", "missing.json"}, {}));
  std::filesystem::remove(path);
}

// Where the topology does not allow the first for a group.
TEST(Planner, GoesOnWhereAnAlgorithmOfAListCannot) {
  const Topology topology = topology_of("mesh:4x2");
  const std::vector<std::string> sources = {"in_switch", "ring_2d", "halving_doubling", "ring"};
  const auto made = make_list_planner(topology, sources, {});
  ASSERT_TRUE(made) << made.error().message;
  std::vector<NodeId> all(topology.rank_nodes().begin(), topology.rank_nodes().end());
  const std::vector<NodeId> four(all.begin(), all.begin() + 4);
  const std::vector<NodeId> three(all.begin(), all.begin() + 3);
  const std::tuple<std::vector<NodeId>, Kind, std::string> cases[] = {
      {all, Kind::kAllReduce, "ring_2d"},
      {four, Kind::kAllReduce, "halving_doubling"},
      {three, Kind::kReduceScatter, "ring"},
      {three, Kind::kBroadcast, "ring"},
  };
  for (int32_t round = 0; round < 2; ++round) {
    for (const auto& [group, kind, algorithm] : cases) {
      const auto choice = (*made)->choose({.collective = kind, .participants = group});
      ASSERT_TRUE(choice) << choice.error().message;
      EXPECT_EQ(choice->schedule->provenance.algorithm, algorithm);
    }
    const auto together = (*made)->choose_together(
        Kind::kAllReduce, std::vector<std::vector<NodeId>>{all, four}, 1000);
    ASSERT_TRUE(together) << together.error().message;
    EXPECT_EQ(together->schedules[0]->provenance.algorithm, "ring_2d");
    EXPECT_EQ(together->schedules[1]->provenance.algorithm, "halving_doubling");
  }
  // None can: the last that tried says why, however often it is asked.
  const auto none =
      make_list_planner(topology, std::vector<std::string>{"in_switch", "halving_doubling"}, {});
  ASSERT_TRUE(none);
  for (int32_t round = 0; round < 2; ++round) {
    const auto choice =
        (*none)->choose({.collective = Kind::kReduceScatter, .participants = three});
    ASSERT_FALSE(choice);
    EXPECT_EQ(choice.error().message,
              "halving_doubling: reduce_scatter takes a power of two of ranks, not 3");
  }
  // A mistake is none that another one makes good.
  const auto wrong =
      make_list_planner(topology, std::vector<std::string>{"in_switch,speed=1", "ring"}, {});
  ASSERT_TRUE(wrong);
  EXPECT_TRUE((*wrong)
                  ->choose({.participants = three})
                  .error()
                  .message.starts_with("algorithm in_switch: unknown option 'speed'"));
}

}  // namespace
}  // namespace pleach
