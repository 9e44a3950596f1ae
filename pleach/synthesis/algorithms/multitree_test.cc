// MultiTree against the figures of its authors' simulator and of two independent restatements.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <tuple>

#include "pleach/base/index.h"
#include "pleach/collective/schedule_table.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Schedule schedule_of(const std::string& topology_spec, const std::string& options,
                     CollectiveKind collective = CollectiveKind::kAllGather) {
  const Result<Topology> topology = parse_topology(topology_spec);
  EXPECT_TRUE(topology) << topology.error().message;
  Result<Schedule> schedule = synthesize({*topology, {}, collective}, "multitree" + options);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return std::move(schedule).value();
}

std::vector<int32_t> transfers_per_step(const Schedule& schedule) {
  std::vector<int32_t> counts(at(schedule.step_count()));
  for (const Transfer& transfer : schedule.transfers) {
    ++counts[at(transfer.step)];
  }
  return counts;
}

struct StepCase {
  std::string topology;
  std::string options;
  int32_t step_count;  // of one phase
};

TEST(Multitree, TakesThePublishedSteps) {
  const std::string published = ",step_rule=published", unsorted = ",tree_order=index",
                    single = ",interfaces=1";
  const StepCase cases[] = {
      {"mesh:2x2", "", 2},
      {"mesh:2x2", published, 2},
      {"torus:4x4", "", 5},
      {"torus:4x4", published, 5},
      {"torus:4x4", unsorted, 5},
      {"torus:4x4", ",interfaces=4", 5},
      {"torus:6x6", "", 10},
      {"torus:6x6", published, 10},
      {"torus:6x6", unsorted, 10},
      {"torus:8x8", "", 17},
      {"torus:8x8", published, 17},
      {"torus:8x8", unsorted, 17},
      // Square meshes of 3 to 8: as published, and with complete steps.
      {"mesh:3x3", published, 6},
      {"mesh:4x4", published, 10},
      {"mesh:5x5", published, 14},
      {"mesh:6x6", published, 20},
      {"mesh:7x7", published, 27},
      {"mesh:8x8", published, 34},
      {"mesh:3x3", "", 5},
      {"mesh:4x4", "", 9},
      {"mesh:5x5", "", 14},
      {"mesh:6x6", "", 18},
      {"mesh:7x7", "", 24},
      {"mesh:8x8", "", 32},
      // Trees in index order.
      {"mesh:4x4", published + unsorted, 10},
      {"mesh:5x5", published + unsorted, 14},
      {"mesh:6x6", published + unsorted, 19},
      {"mesh:8x8", published + unsorted, 33},
      {"mesh:4x4", unsorted, 8},
      {"mesh:5x5", unsorted, 12},
      {"mesh:6x6", unsorted, 18},
      {"mesh:8x8", unsorted, 32},
      // One interface per node.
      {"torus:4x4", single, 15},
      {"torus:4x4", single + published, 15},
      {"torus:4x4", single + published + unsorted, 15},
      {"mesh:4x4", single + published, 21},
      {"mesh:4x4", single + published + unsorted, 22},
      // Through switches: one step for each other rank.
      {"switch:6", "", 5},
      {"fat_tree:16,radix=4", "", 15},
      {"fat_tree:64", "", 63},
      {"bigraph:4x8", "", 31},
      {"bigraph:4x16", "", 63},
  };
  for (const StepCase& expected : cases) {
    SCOPED_TRACE(expected.topology + expected.options);
    EXPECT_EQ(schedule_of(expected.topology, expected.options).step_count(), expected.step_count);
    const Schedule whole =
        schedule_of(expected.topology, expected.options, CollectiveKind::kAllReduce);
    EXPECT_EQ(whole.phase_steps, std::vector<int32_t>(2, expected.step_count));
  }
}

TEST(Multitree, FillsTheLinksOfATorus) {
  EXPECT_EQ(transfers_per_step(schedule_of("torus:4x4", "")),
            (std::vector<int32_t>{64, 64, 48, 48, 16}));
  EXPECT_EQ(transfers_per_step(schedule_of("torus:6x6", "")),
            (std::vector<int32_t>{144, 144, 108, 144, 144, 144, 144, 144, 108, 36}));
  std::vector<int32_t> expected(14, 256);
  expected.insert(expected.end(), {192, 192, 64});
  EXPECT_EQ(transfers_per_step(schedule_of("torus:8x8", "")), expected);
}

// (child, parent, step) of the tree out of `root`.
std::vector<std::tuple<int32_t, int32_t, int32_t>> tree_of(const Schedule& gather, int32_t root) {
  std::vector<std::tuple<int32_t, int32_t, int32_t>> tree;
  for (const Transfer& transfer : gather.transfers) {
    if (transfer.first_chunk == root) {
      tree.emplace_back(transfer.target.value, transfer.source.value, transfer.step);
    }
  }
  std::ranges::sort(tree);
  return tree;
}

TEST(Multitree, GrowsTheTreesOfTheReferenceOnFourNodes) {
  using Tree = std::vector<std::tuple<int32_t, int32_t, int32_t>>;
  const Schedule gather = schedule_of("mesh:2x2", "");
  EXPECT_EQ(tree_of(gather, 0), (Tree{{1, 0, 0}, {2, 0, 0}, {3, 2, 1}}));
  EXPECT_EQ(tree_of(gather, 1), (Tree{{0, 1, 0}, {2, 3, 1}, {3, 1, 0}}));
  EXPECT_EQ(tree_of(gather, 2), (Tree{{0, 2, 0}, {1, 0, 1}, {3, 2, 0}}));
  EXPECT_EQ(tree_of(gather, 3), (Tree{{0, 1, 1}, {1, 3, 0}, {2, 3, 0}}));
}

ScheduleTable table_of(const std::string& topology_spec) {
  const Schedule schedule = schedule_of(topology_spec, "", CollectiveKind::kAllReduce);
  return ScheduleTable::build(schedule, Order::build(schedule));
}

// Entries as (step, opcode, flow, parents, children).
using Ranks = std::vector<int32_t>;
using Entry = std::tuple<int32_t, TableOp, int32_t, Ranks, Ranks>;

std::vector<Entry> written(const ScheduleTable& table, std::span<const TableEntry> entries) {
  std::vector<Entry> all;
  for (const TableEntry& entry : entries) {
    const auto parents = table.parents(entry), children = table.children(entry);
    all.emplace_back(entry.step, entry.op, entry.flow(), Ranks(parents.begin(), parents.end()),
                     Ranks(children.begin(), children.end()));
  }
  return all;
}

TEST(Multitree, GivesNodeZeroTheTableOfTheReference) {
  const ScheduleTable table = table_of("mesh:2x2");
  const TableOp reduce = TableOp::kReduce, gather = TableOp::kGather;
  EXPECT_EQ(written(table, table.entries(0)), (std::vector<Entry>{{0, reduce, 3, {1}, {}},
                                                                  {1, reduce, 1, {1}, {}},
                                                                  {1, reduce, 2, {2}, {1}},
                                                                  {2, gather, 0, {}, {1, 2}},
                                                                  {3, gather, 2, {2}, {1}}}));
  // Its own tree's marker.
  EXPECT_EQ(written(table, table.ends(0, 0)), (std::vector<Entry>{{2, reduce, 0, {}, {1, 2}}}));
}

// Of the fullest network interface.
TEST(Multitree, NeedsThePublishedTableEntries) {
  for (const auto& [topology, expected] :
       {std::pair("torus:4x4", 25), std::pair("torus:8x8", 120), std::pair("torus:10x10", 191),
        std::pair("fat_tree:64", 126), std::pair("bigraph:4x16", 126)}) {
    const ScheduleTable table = table_of(topology);
    int32_t most = 0;
    for (int32_t rank = 0; rank < table.rank_count(); ++rank) {
      most = std::max(most, count_of(table.entries(rank)));
      // Each root's marker, of its own flow.
      ASSERT_EQ(table.ends(rank, 0).size(), 1u);
      EXPECT_EQ(table.ends(rank, 0).front().flow(), rank);
    }
    EXPECT_EQ(most, expected) << topology;
  }
}

TEST(Multitree, ReversesTheTreesToReduce) {
  const Schedule gather = schedule_of("mesh:3x4", "");
  const Schedule scatter = schedule_of("mesh:3x4", "", CollectiveKind::kReduceScatter);
  using Edge = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // chunk, parent, child, step
  std::set<Edge> outward, inward;
  for (const Transfer& transfer : gather.transfers) {
    outward.emplace(transfer.first_chunk, transfer.source.value, transfer.target.value,
                    transfer.step);
  }
  for (const Transfer& transfer : scatter.transfers) {
    inward.emplace(transfer.first_chunk, transfer.target.value, transfer.source.value,
                   scatter.step_count() - 1 - transfer.step);
  }
  EXPECT_EQ(inward, outward);
}

Topology graph_of(std::span<const std::pair<int32_t, int32_t>> links) {
  TopologyBuilder builder("cables");
  int32_t count = 0;
  for (const auto& [source, target] : links) {
    count = std::max({count, source + 1, target + 1});
  }
  for (int32_t rank = 0; rank < count; ++rank) {
    EXPECT_TRUE(builder.add_node({.name = "n" + std::to_string(rank), .forwards = true}));
  }
  for (const auto& [source, target] : links) {
    EXPECT_TRUE(builder.add_link({NodeId{source}, NodeId{target}, 1'000'000'000, 0}));
  }
  Result<Topology> topology = std::move(builder).build();
  EXPECT_TRUE(topology) << topology.error().message;
  return std::move(topology).value();
}

struct GraphCase {
  std::string name;
  std::vector<std::pair<int32_t, int32_t>> links;
  std::vector<int32_t> phase_steps;
};

TEST(Multitree, UsesEveryLinkOfAnyGraphForItself) {
  const GraphCase cases[] = {
      {"a line", {{0, 1}, {1, 0}, {1, 2}, {2, 1}}, {2, 2}},
      {"a line of double cables",
       {{0, 1}, {0, 1}, {1, 0}, {1, 0}, {1, 2}, {1, 2}, {2, 1}, {2, 1}},
       {2, 2}},
      {"a one-way ring", {{0, 1}, {1, 2}, {2, 3}, {3, 0}}, {3, 3}},
      {"a ring with a chord one way", {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 2}}, {4, 3}},
      {"a double link one way only", {{0, 1}, {0, 1}, {1, 0}}, {1, 1}},
  };
  for (const GraphCase& graph : cases) {
    SCOPED_TRACE(graph.name);
    const Topology topology = graph_of(graph.links);
    const auto schedule = synthesize({topology, {}, CollectiveKind::kAllReduce}, "multitree");
    ASSERT_TRUE(schedule) << schedule.error().message;
    const Verification verification = verify(*schedule, &topology);
    EXPECT_TRUE(verification.correct);
    EXPECT_TRUE(verification.contention_free);
    EXPECT_EQ(schedule->phase_steps, graph.phase_steps);
  }
}

struct Group {
  std::string topology;
  std::vector<NodeId> participants;
};

// A step's ways have their links for themselves, also through switches and ranks that take no part.
TEST(Multitree, GoesThroughWhatForwards) {
  const Group groups[] = {
      {"switch:5", {}},
      {"fat_tree:16,radix=4", {}},
      {"fat_tree:16,levels=3,radix=2", {}},
      {"bigraph:3x4", {}},
      {"leaf_spine:2x4,rails=2,spines=3", {}},
      {"dragonfly:2x2x1", {}},
      {"dgx_h100:2", {}},
      {"bigraph:4x4", {{0}, {5}, {6}, {11}, {15}}},
      {"ring:6", {{0}, {1}, {3}, {4}}},
      {"torus:4x4", {{15}, {0}, {10}, {5}, {2}}},
      {"mesh:3x3", {{0}, {8}}},
  };
  for (const Group& group : groups) {
    SCOPED_TRACE(group.topology);
    const Topology topology = *parse_topology(group.topology);
    for (const CollectiveKind collective :
         {CollectiveKind::kAllReduce, CollectiveKind::kAllGather}) {
      const auto schedule = synthesize({topology, group.participants, collective}, "multitree");
      ASSERT_TRUE(schedule) << schedule.error().message;
      const Verification verification = verify(*schedule, &topology);
      EXPECT_TRUE(verification.correct);
      EXPECT_TRUE(verification.contention_free);
    }
  }
}

// Two ranks on each of two switches with one cable: in the first step everybody serves the one next
// to it; then one of each pair has the cable at a time.
TEST(Multitree, ServesItsOwnSwitchFirst) {
  const Schedule gather = schedule_of("leaf_spine:2x2,spines=1", "");
  for (const Transfer& transfer : gather.transfers) {
    EXPECT_EQ(transfer.step == 0, transfer.source.value / 2 == transfer.target.value / 2);
  }
}

}  // namespace
}  // namespace pleach
