#include "pleach/fabric/fred_study.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "pleach/base/index.h"
#include "pleach/fabric/conflict_check.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

struct Partitions {
  int32_t ports;
  int64_t sets;
  int64_t refused_of_2;
  int64_t refused_of_3;
};

TEST(FredStudy, CountsPartitionsIntoAllReducesThatDoNotRoute) {
  constexpr Partitions kKnown[] = {{2, 2, 0, 0},   {3, 5, 0, 0},    {4, 15, 0, 0},    {5, 52, 0, 0},
                                   {6, 203, 8, 0}, {7, 877, 32, 0}, {8, 4140, 448, 0}};
  for (const auto& [ports, sets, refused_of_2, refused_of_3] : kKnown) {
    for (const int32_t middle : {2, 3}) {
      const RouteCount count = count_partitions({ports, middle}, {}).value();
      EXPECT_EQ(count.sets, sets);
      EXPECT_EQ(count.refused, middle == 2 ? refused_of_2 : refused_of_3) << ports << " " << middle;
      EXPECT_EQ(count.given_up(), 0);
    }
  }
  EXPECT_EQ(count_partitions({13, 2}, {}).error().message,
            "partitions of 13 ports: at most 12 are enumerated");
}

TEST(FredStudy, RoutesEveryPhaseOfEveryStrategyWithThreeInTheMiddle) {
  const PlacementCount three = count_placements({20, 3}, {});
  EXPECT_EQ(three.all.sets, 344);
  EXPECT_EQ(three.all.routed, 344);
  EXPECT_TRUE(three.refused.empty());
  const PlacementCount two = count_placements({20, 2}, {});
  EXPECT_EQ(two.strategies, three.strategies);
  EXPECT_EQ(two.all.sets, 344);
  EXPECT_GT(two.all.refused, 0);
  EXPECT_EQ(two.all.given_up(), 0);
  EXPECT_EQ(two.refused.size(), static_cast<std::size_t>(two.all.refused));
}

// A plane as built has bandwidth enough, but its two halves cannot share these.
TEST(FredStudy, NamesWhatAPlaneAsBuiltDoesNotRoute) {
  const PlacementCount count = count_plane_placements({20, 3}, {});
  EXPECT_EQ(count.all.sets, 344);
  EXPECT_EQ(count.all.routed, 340);
  EXPECT_EQ(count.all.refused, 4);
  std::vector<std::string> refused;
  for (const auto& [strategy, phase] : count.refused) {
    refused.push_back(fmt::format("{} of {},{},{}", to_text(phase), strategy.model, strategy.data,
                                  strategy.pipeline));
  }
  EXPECT_EQ(refused,
            (std::vector<std::string>{"DP of 1,3,5", "DP of 5,3,1", "DP of 1,4,5", "DP of 5,4,1"}));
}

TEST(FredStudy, MakesTheFlowsOfAStrategy) {
  const SwitchStrategy strategy = {2, 2, 3};
  EXPECT_EQ(flows_text(strategy_flows(strategy, StrategyPhase::kModel)),
            "0,1->0,1; 2,3->2,3; 4,5->4,5; 6,7->6,7; 8,9->8,9; 10,11->10,11");
  EXPECT_EQ(flows_text(strategy_flows(strategy, StrategyPhase::kData)),
            "0,6->0,6; 1,7->1,7; 2,8->2,8; 3,9->3,9; 4,10->4,10; 5,11->5,11");
  EXPECT_EQ(flows_text(strategy_flows(strategy, StrategyPhase::kForward)),
            "0->2,3; 2->4,5; 6->8,9; 8->10,11");
  EXPECT_EQ(flows_text(strategy_flows(strategy, StrategyPhase::kBackward)),
            "2->0,1; 4->2,3; 8->6,7; 10->8,9");
  EXPECT_TRUE(strategy_flows({1, 4, 1}, StrategyPhase::kModel).empty());
  EXPECT_TRUE(strategy_flows({4, 1, 1}, StrategyPhase::kData).empty());
}

TEST(FredStudy, DrawsFlowsThatASwitchMayBeAsked) {
  Rng rng(1);
  for (const FlowSample::Kind kind : {FlowSample::Kind::kAllReduce, FlowSample::Kind::kMulticast,
                                      FlowSample::Kind::kReduce, FlowSample::Kind::kMixed}) {
    for (int32_t round = 0; round < 100; ++round) {
      const std::vector<PortFlow> flows = draw_flows({kind, 5, 3}, 16, rng);
      EXPECT_EQ(flows.size(), 5U);
      EXPECT_TRUE(check_flows(flows, 16));
    }
  }
  EXPECT_EQ(check_sample({FlowSample::Kind::kReduce, 5, 4}, 16).error().message,
            "5 flows of 4 ports take 20: the switch has 16");
}

TEST(FredStudy, KnowsHowSureAShareIs) {
  // Wilson's interval of 8 in 10.
  const Share share = share_of(8, 10);
  EXPECT_DOUBLE_EQ(share.value, 0.8);
  EXPECT_NEAR(share.low, 0.4902, 1e-4);
  EXPECT_NEAR(share.high, 0.9433, 1e-4);
  EXPECT_DOUBLE_EQ(share_of(0, 50).low, 0);
}

TEST(FredStudy, DrawsWhatIsDead) {
  Rng rng(5);
  const FredSize size = {11, 3};
  std::set<FredCell> seen;
  for (int32_t round = 0; round < 300; ++round) {
    const FaultSample sample = {4, 2, 2};
    FredSize left = size;
    left.dead = draw_faults(sample, size, rng);
    EXPECT_TRUE(check_faults(left));
    EXPECT_EQ(left.dead.cells.size(), 4U);
    EXPECT_EQ(left.dead.subnetworks.size(), 2U);
    seen.insert(left.dead.cells.begin(), left.dead.cells.end());
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), count_cells(size)->cells);
  EXPECT_EQ(draw_faults({73, 9, 2}, size, rng).subnetworks.size(), 9U);
  EXPECT_EQ(check_sample(FaultSample{74}, size).error().message,
            "74 dead cells: FRED_3(11) has 73");
  EXPECT_EQ(check_sample({0, 4, 1}, size).error().message,
            "4 dead subnetworks of level 1: FRED_3(11) has 3");
  EXPECT_EQ(check_sample({0, 1, 4}, size).error().message,
            "dead subnetworks of level 4: FRED_3(11) has 3 levels of them");
}

// Sets that no other switch of the same ports would route are told apart.
TEST(FredStudy, CountsSetsThatAreCutOff) {
  RouteCount count;
  const FredSize size = {8, 3, parse_faults({8, 3}, "R0", "1+2").value()};
  count.add(size, parse_flows("0->1", 8).value(), {});
  count.add(size, parse_flows("2->1; 3->0", 8).value(), {});
  count.add(size, parse_flows("2->1", 8).value(), {});
  EXPECT_EQ(count.sets, 3);
  EXPECT_EQ(count.routed, 1);
  EXPECT_EQ(count.refused, 2);
  EXPECT_EQ(count.cut_off, 1);
  EXPECT_EQ(count.refused_dead, size.dead);
}

}  // namespace
}  // namespace pleach
