#include "pleach/synthesis/hierarchy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

std::vector<NodeId> all(const Topology& topology) {
  return {topology.rank_nodes().begin(), topology.rank_nodes().end()};
}

TEST(Hierarchy, FindsTheLevelsOfATopology) {
  const struct {
    std::string topology;
    std::vector<int32_t> sizes;
  } cases[] = {
      {"torus:3x4x5", {5, 4, 3}},
      {"torus:4x1", {4}},
      {"ring:7", {7}},
      {"switch:6", {6}},
      {"fully_connected:5", {5}},
      {"hypercube:8", {2, 2, 2}},
      {"leaf_spine:3x4", {4, 3}},
      {"leaf_spine:3x4,rails=2,spines=2", {4, 3}},
      {"fat_tree:64", {8, 8}},
      {"fat_tree:128,radix=4", {4, 4, 8}},
      {"bigraph:4x8", {4, 8}},
      {"dragonfly:2x4x2", {2, 36}},
      {"dgx_h100:1", {8}},
      {"dgx_h100:4", {8, 4}},
      {"dgx_a100:4,fabric=rails", {8, 4}},
      {"dgx_b200:2", {8, 2}},
  };
  for (const auto& [name, sizes] : cases) {
    const Topology topology = topology_of(name);
    const Result<Hierarchy> hierarchy = find_hierarchy(topology, all(topology));
    ASSERT_TRUE(hierarchy) << name << ": " << hierarchy.error().message;
    EXPECT_EQ(hierarchy->sizes, sizes) << name;
    std::vector<int32_t> ranks(topology.rank_nodes().size());
    std::iota(ranks.begin(), ranks.end(), 0);
    EXPECT_EQ(hierarchy->rank_at, ranks) << name;  // shapes number their ranks so
  }
}

TEST(Hierarchy, NumbersMembersInTheOrderOfRanks) {
  // Ranks that alternate between boxes: rails join those of one number.
  const Topology topology = topology_of("dgx_h100:2");
  const std::vector<NodeId> participants = {NodeId{8}, NodeId{0},  NodeId{9},
                                            NodeId{3}, NodeId{15}, NodeId{2}};
  const Result<Hierarchy> hierarchy = find_hierarchy(topology, participants);
  ASSERT_TRUE(hierarchy);
  EXPECT_EQ(hierarchy->sizes, (std::vector<int32_t>{3, 2}));
  EXPECT_EQ(hierarchy->rank_at, (std::vector<int32_t>{0, 2, 4, 1, 3, 5}));
  const Topology grid = topology_of("mesh:2x3");
  const std::vector<NodeId> mixed = {NodeId{5}, NodeId{4}, NodeId{3},
                                     NodeId{2}, NodeId{1}, NodeId{0}};
  EXPECT_EQ(find_hierarchy(grid, mixed)->rank_at, (std::vector<int32_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_TRUE(find_hierarchy(grid, mixed)->is_grid);
}

TEST(Hierarchy, NeedsGroupsOfOneSize) {
  const Topology topology = topology_of("dgx_h100:2");
  const std::vector<NodeId> five = {NodeId{0}, NodeId{1}, NodeId{2}, NodeId{8}, NodeId{9}};
  const Result<Hierarchy> hierarchy = find_hierarchy(topology, five);
  ASSERT_FALSE(hierarchy);
  EXPECT_EQ(hierarchy.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(hierarchy.error().message,
            "the ranks of dgx_h100:2 form groups of 3 and of 2: it takes groups of one size");
}

TEST(Hierarchy, ReadsSizes) {
  const Result<Hierarchy> hierarchy = parse_hierarchy("3x2x2", 12);
  ASSERT_TRUE(hierarchy);
  EXPECT_EQ(hierarchy->sizes, (std::vector<int32_t>{3, 2, 2}));
  EXPECT_EQ(hierarchy->stride(0), 1);
  EXPECT_EQ(hierarchy->stride(2), 6);
  EXPECT_EQ(hierarchy->rank_at[11], 11);
  EXPECT_EQ(parse_hierarchy("3x2", 12).error().message, "levels of 3x2 ranks, not of 12");
  EXPECT_EQ(parse_hierarchy("3x0", 12).error().message,
            "size of a level '0' is outside 1 to 1048576");
  EXPECT_EQ(parse_hierarchy("1048576x1048576x1048576", 12).error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(parse_hierarchy("", 12).error().message, "size of a level '' is not a whole number");
}

}  // namespace
}  // namespace pleach
