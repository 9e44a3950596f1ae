// Collectives inside trees of switches.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/verify.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"
#include "tests/support/random_schedules.h"
#include "tests/support/two_levels.h"

namespace pleach {
namespace {

Result<Schedule> made(const Topology& topology, CollectiveKind collective,
                      std::vector<NodeId> group, int32_t root = 0) {
  return synthesize({.topology = topology,
                     .participants = std::move(group),
                     .collective = collective,
                     .root = Rank{root}},
                    "in_switch");
}

std::vector<NodeId> nodes_of(const std::vector<int32_t>& ranks) {
  std::vector<NodeId> nodes;
  for (const int32_t rank : ranks) {
    nodes.push_back(NodeId{rank});
  }
  return nodes;
}

// Up to the lowest switch above all, one copy on each cable and way.
TEST(InSwitch, TurnsAtTheLowestSwitchAboveAll) {
  const support::TwoLevels levels{.ranks = 6, .leaves = 3};
  const Topology topology = levels.topology();
  const auto whole = made(topology, CollectiveKind::kAllReduce, nodes_of({0, 1, 2, 3, 4, 5}));
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->transfers.size(), 2 * topology.links().size() / 2);
  EXPECT_NEAR(whole->provenance.certificate.fraction, 1, 1e-9);
  EXPECT_NEAR(whole->provenance.certificate.alpha_s, 405e-9, 1e-15);
  const auto one_leaf = made(topology, CollectiveKind::kAllReduce, nodes_of({2, 3}));
  ASSERT_TRUE(one_leaf);
  EXPECT_EQ(one_leaf->transfers.size(), 4U);
  EXPECT_FALSE(names_passes(*one_leaf));
  EXPECT_NEAR(one_leaf->provenance.certificate.alpha_s, 205e-9, 1e-15);
  const auto two_leaves = made(topology, CollectiveKind::kAllReduce, nodes_of({4, 0, 1}));
  ASSERT_TRUE(two_leaves);
  EXPECT_EQ(two_leaves->transfers.size(), 2U * (3 + 2));
}

// A broadcast goes up and down at once, a reduction to one rank turns at its leaf.
TEST(InSwitch, TurnsEarlyWhereOneEndIsNarrow) {
  const support::TwoLevels levels{.ranks = 6, .leaves = 3};
  const Topology topology = levels.topology();
  for (const CollectiveKind collective : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
    const auto schedule = made(topology, collective, nodes_of({0, 1, 2, 3}), 2);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_FALSE(names_passes(*schedule));
    // 0, 1, 2, 3 and their two leaves, over the root; the reduction adds its root's own part there.
    const bool reduces = collective == CollectiveKind::kReduce;
    EXPECT_EQ(schedule->transfers.size(), reduces ? 7U : 6U);
  }
}

// Two levels of which one switch lacks an ability.
Topology weakened(const Topology& topology, int32_t weak, bool reduces, bool multicasts) {
  TopologyBuilder builder("weak");
  for (int32_t node = 0; node < count_of(topology.nodes()); ++node) {
    Node copy = topology.node(NodeId{node});
    if (node == weak) {
      copy.reduces = reduces;
      copy.multicasts = multicasts;
    }
    EXPECT_TRUE(builder.add_node(copy));
  }
  for (const Link& link : topology.links()) {
    EXPECT_TRUE(builder.add_link(link));
  }
  auto built = std::move(builder).build();
  EXPECT_TRUE(built);
  return std::move(built).value();
}

TEST(InSwitch, NamesWhatCannot) {
  const support::TwoLevels levels{.ranks = 4, .leaves = 2};
  const auto all = nodes_of({0, 1, 2, 3});
  for (const auto& [reduces, multicasts, error] :
       {std::tuple(false, true, "switch 4 does not reduce"),
        std::tuple(true, false, "switch 4 does not multicast")}) {
    const Topology weak = weakened(levels.topology(), 4, reduces, multicasts);
    const auto refused = made(weak, CollectiveKind::kAllReduce, all);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(error), std::string::npos) << refused.error().message;
    EXPECT_TRUE(made(weak, CollectiveKind::kAllReduce, nodes_of({2, 3}))) << "another leaf";
  }
}

// Of I/O nodes, as ranks have ways to each other.
TEST(InSwitch, NamesWhomNoSwitchReaches) {
  constexpr int32_t kFirstIo = 26, kAtLeaf4 = 43;
  for (const auto& [cut, root, error] :
       {std::tuple("io0>l1.0", kFirstIo, "l1.0 does not reach io0"),
        std::tuple("l1.4>io17", kAtLeaf4, "l1.0 does not reach io17")}) {
    const auto topology = parse_topology(std::string("fred:D,without_link=") + cut);
    ASSERT_TRUE(topology) << topology.error().message;
    const auto refused =
        made(*topology, CollectiveKind::kReduce, nodes_of({3, 4, 5, root}), /*root=*/3);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
    EXPECT_NE(refused.error().message.find(error), std::string::npos) << refused.error().message;
  }
}

// A root that only passes on is no center, but a leaf is: it turns what comes from the other one.
TEST(InSwitch, TurnsElsewhereWhereTheLowestCannot) {
  const support::TwoLevels levels{.ranks = 4, .leaves = 2};
  for (const auto& [reduces, multicasts] : {std::pair(false, true), std::pair(true, false)}) {
    const Topology weak = weakened(levels.topology(), 6, reduces, multicasts);
    const auto schedule = made(weak, CollectiveKind::kAllReduce, nodes_of({0, 1, 2, 3}));
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_TRUE(verify(*schedule, &weak).correct);
    EXPECT_NEAR(schedule->provenance.certificate.alpha_s, 5e-9 + 6 * 100e-9, 1e-15);
    EXPECT_TRUE(made(weak, CollectiveKind::kAllReduce, nodes_of({0, 1})));
  }
}

// Any group of a random tree, any collective: proved, and as fast as its certificate says.
TEST(InSwitch, IsRightOnRandomTrees) {
  for (int32_t seed = 0; seed < support::repeated(60); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    TopologyBuilder builder("tree");
    const int32_t switches = 1 + support::pick(rng, 5), ranks = 2 + support::pick(rng, 8);
    const auto cable = [&](int32_t one, int32_t other) {
      EXPECT_TRUE(builder.add_cable(
          {NodeId{one}, NodeId{other}, 1'000'000'000, 100 * support::pick(rng, 9)}));
    };
    for (int32_t node = 0; node < switches + ranks; ++node) {
      const bool is_switch = node < switches;
      ASSERT_TRUE(builder.add_node({.name = std::to_string(node),
                                    .kind = is_switch ? NodeKind::kSwitch : NodeKind::kRank,
                                    .reduces = is_switch,
                                    .multicasts = is_switch}));
    }
    for (int32_t node = 1; node < switches + ranks; ++node) {
      cable(node, support::pick(rng, std::min(node, switches)));
    }
    const auto topology = std::move(builder).build();
    ASSERT_TRUE(topology);
    std::vector<NodeId> group(topology->rank_nodes().begin(), topology->rank_nodes().end());
    for (std::size_t left = group.size(); left > 1; --left) {
      std::swap(group[left - 1], group[rng.below(left)]);
    }
    group.resize(2 + rng.below(group.size() - 1));
    for (const CollectiveKind collective :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
          CollectiveKind::kBroadcast, CollectiveKind::kReduce, CollectiveKind::kAllToAll}) {
      const int32_t root = has_root(collective) ? support::pick(rng, count_of(group)) : 0;
      const auto schedule = made(*topology, collective, group, root);
      ASSERT_TRUE(schedule) << schedule.error().message;
      const Verification verification = verify(*schedule, &*topology);
      EXPECT_EQ(verification.violations, std::vector<std::string>());
      EXPECT_TRUE(verification.bitwise_replicated);
      const int64_t bytes = 1'000'000 - 1'000'000 % count_of(group);
      const Job job{borrowed(*schedule), bytes, 0};
      const auto simulation = simulate("flow", *topology, std::span(&job, 1), {});
      ASSERT_TRUE(simulation) << simulation.error().message;
      const Certificate& certificate = schedule->provenance.certificate;
      EXPECT_GE(static_cast<double>(simulation->finish_ps) * 1e-12 * (1 + 1e-9),
                static_cast<double>(bytes) / certificate.bound_algbw_bytes_per_s);
      if (collective == CollectiveKind::kAllReduce || has_root(collective)) {
        EXPECT_NEAR(certificate.fraction, 1, 1e-9) << "one stream at the cables' rate";
        EXPECT_NEAR(
            static_cast<double>(simulation->finish_ps),
            1e12 * (certificate.alpha_s + static_cast<double>(bytes) * certificate.beta_s_per_byte),
            2);
      }
    }
  }
}

// Groups of NPUs far apart, on three levels with trunks of many lanes: each finds lanes of its own
// at once, and takes what it takes alone.
TEST(InSwitch, GroupsFindLanesOnDeepTrees) {
  const auto topology = parse_topology("fred:D,npus=64,levels=3");
  ASSERT_TRUE(topology) << topology.error().message;
  std::vector<Job> jobs;
  for (int32_t first = 0; first < 16; ++first) {
    auto schedule = made(*topology, CollectiveKind::kAllReduce,
                         nodes_of({first, first + 16, first + 32, first + 48}));
    ASSERT_TRUE(schedule) << schedule.error().message;
    jobs.push_back({std::make_shared<const Schedule>(std::move(*schedule)), 1'000'000, 0});
  }
  const auto alone = simulate("flow", *topology, std::span(jobs).first(1), {});
  const auto together = simulate("flow", *topology, jobs, {});
  ASSERT_TRUE(alone && together);
  EXPECT_EQ(together->job_finish_ps,
            std::vector<int64_t>(jobs.size(), alone->job_finish_ps.front()));
}

// One stream through more switches than a search for lanes asks of most.
TEST(InSwitch, PassesHundredsOfSwitches) {
  const auto topology = parse_topology("switch_tree:300x2,lanes=2,switch=fred,reduce,multicast");
  ASSERT_TRUE(topology) << topology.error().message;
  const std::span<const NodeId> ranks = topology->rank_nodes();
  auto schedule = made(*topology, CollectiveKind::kAllReduce, {ranks.begin(), ranks.end()});
  ASSERT_TRUE(schedule) << schedule.error().message;
  const Job job = {std::make_shared<const Schedule>(std::move(*schedule)), 1'000'000, 0};
  const auto simulation = simulate("flow", *topology, std::span(&job, 1), {});
  ASSERT_TRUE(simulation) << simulation.error().message;
}

// Groups that route on some lanes flow together, where the first one's own choice would leave the
// others none.
TEST(InSwitch, GroupsFindLanesTogether) {
  struct Case {
    std::string tree;
    std::vector<std::vector<int32_t>> groups;
  };
  for (const auto& [tree, groups] :
       {Case{"2x5,middle=2,lanes=3", {{5, 1, 6}, {0, 4, 9}, {8, 2, 7}}},
        Case{"4x3,middle=2,lanes=3,io=4", {{5, 9, 8}, {3, 6, 10, 2}, {7, 11}, {0, 1}}}}) {
    SCOPED_TRACE(tree);
    const auto topology = parse_topology("switch_tree:" + tree + ",switch=fred,reduce,multicast");
    ASSERT_TRUE(topology) << topology.error().message;
    std::vector<Job> jobs;
    for (const std::vector<int32_t>& group : groups) {
      auto schedule = made(*topology, CollectiveKind::kAllReduce, nodes_of(group));
      ASSERT_TRUE(schedule) << schedule.error().message;
      jobs.push_back({std::make_shared<const Schedule>(std::move(*schedule)), 1'000'000, 0});
    }
    SimulationOptions options;
    const auto together = simulate("flow", *topology, jobs, options);
    options.admission = AdmissionRule::kFree;
    const auto free = simulate("flow", *topology, jobs, options);
    ASSERT_TRUE(together && free);
    EXPECT_EQ(together->job_finish_ps, free->job_finish_ps);
    EXPECT_TRUE(together->use.admission->conflicts.empty());
  }
}

}  // namespace
}  // namespace pleach
