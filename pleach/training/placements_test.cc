#include "pleach/training/placements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

Strategy parsed(const Topology& topology, const std::string& text) {
  const auto strategy = parse_strategy(text, count_of(topology.rank_nodes()));
  PLEACH_CHECK(strategy, strategy ? "" : strategy.error().message.c_str());
  return *strategy;
}

Strategy placed_on(const Topology& topology, const std::string& text) {
  const auto strategy = placed(topology, parsed(topology, text));
  PLEACH_CHECK(strategy, strategy ? "" : strategy.error().message.c_str());
  return *strategy;
}

PlacementCost cost_on(const Topology& topology, const Strategy& strategy) {
  auto judge = PlacementJudge::create(topology);
  PLEACH_CHECK(judge, "");
  const auto cost = judge->cost(strategy);
  PLEACH_CHECK(cost, cost ? "" : cost.error().message.c_str());
  return *cost;
}

// FRED, sec. 8: row = mp + 2 pp, column = dp, where each phase has every link it takes to itself.
TEST(Placements, TheMeshOfThePaper) {
  const Topology topology = topology_of("wafer_mesh:5x4,io=none");
  const Strategy strategy = placed_on(topology, "dp=5,tp=2,pp=2,outputs=multicast,placement=mesh");
  std::vector<int32_t> wanted;
  for (int32_t dp = 0; dp < 5; ++dp) {
    for (int32_t pp = 0; pp < 2; ++pp) {
      for (int32_t mp = 0; mp < 2; ++mp) {
        wanted.push_back((mp + 2 * pp) * 5 + dp);
      }
    }
  }
  EXPECT_EQ(strategy.rank_of_place, wanted);
  EXPECT_EQ(cost_on(topology, strategy).slowness, (std::vector<double>{1, 1, 1, 1}));
}

// Any strategy gets a place for each of its workers, no worse than that of ranks as numbered in the
// phase that comes first.
TEST(Placements, EveryStrategyHasAMesh) {
  const struct {
    std::string spec;
    std::string strategy;
  } cases[] = {
      {"mesh:4x4", "dp=4,tp=2,pp=2"},
      {"mesh:4x4", "dp=3,tp=5,idle=1"},
      {"mesh:3x3", "tp=3,sp=3"},
      {"mesh:2x2x2", "tp=4,pp=2"},
      {"torus:4x4", "tp=8,dp=2"},
      {"mesh:4x4", "dp=13,idle=3"},
      {"wafer_mesh:5x4", "dp=3,tp=3,pp=2,idle=2,outputs=multicast"},
  };
  for (const auto& [spec, text] : cases) {
    const Topology topology = topology_of(spec);
    const Strategy strategy = placed_on(topology, text + ",placement=mesh");
    EXPECT_EQ(strategy.placement_rule, PlacementRule::kGiven);
    EXPECT_TRUE(check_placement(strategy)) << spec << ' ' << text;
    const Strategy numbered = parsed(topology, text);
    EXPECT_LE(cost_on(topology, strategy).slowness.front(),
              cost_on(topology, numbered).slowness.front())
        << spec << ' ' << text;
  }
}

// Data groups of FRED_2(6) that do not route as ranks are numbered ({0,3},{1,4},{2,5}) do where
// ranks have changed places; the same seed gives the same places.
TEST(Placements, ASearchFindsPlacesThatRoute) {
  const Topology topology = topology_of("switch_tree:6,switch=fred,middle=2,reduce,multicast");
  EXPECT_GT(cost_on(topology, parsed(topology, "dp=2,tp=3")).conflicts, 0);
  const Strategy one = placed_on(topology, "dp=2,tp=3,placement=search");
  EXPECT_TRUE(check_placement(one));
  EXPECT_EQ(cost_on(topology, one).conflicts, 0);
  EXPECT_EQ(placed_on(topology, "dp=2,tp=3,placement=search").rank_of_place, one.rank_of_place);
}

TEST(Placements, ASearchOnAMeshIsNoWorseThanItsStart) {
  const Topology topology = topology_of("mesh:4x4");
  const auto slowness = [&](const std::string& rule) {
    const PlacementCost cost =
        cost_on(topology, placed_on(topology, "dp=3,tp=5,idle=1,placement=" + rule));
    return std::accumulate(cost.slowness.begin(), cost.slowness.end(), 0.0);
  };
  EXPECT_LE(slowness("search"), slowness("mesh"));
}

TEST(Placements, WhatIsNoGridHasNoMesh) {
  const struct {
    std::string spec;
    std::string message;
  } cases[] = {
      {"switch:8", "placement=mesh: switch:8 is no grid of two dimensions or more"},
      {"ring:8", "placement=mesh: ring:8 is no grid of two dimensions or more"},
      {"mesh:33x33", "placement=mesh: mesh:33x33 has 1089 ranks: at most 1024 are placed so"},
  };
  for (const auto& [spec, message] : cases) {
    const Topology topology = topology_of(spec);
    const auto strategy = placed(topology, parsed(topology, "placement=mesh"));
    ASSERT_FALSE(strategy);
    EXPECT_EQ(strategy.error().message, message);
  }
}

}  // namespace
}  // namespace pleach
