#include "pleach/fabric/fred_router.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/fabric/configuration.h"
#include "pleach/fabric/conflict_check.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

using support::ModeTrial;
using support::random_flows;

// Routes, and holds what comes out to the checkers.
FlowRouting checked(const FredSize& size, const std::vector<PortFlow>& flows) {
  FlowRouting routing = route_flows(size, flows);
  if (routing.routed) {
    const FredSwitch fred = FredSwitch::create(size).value();
    const Configuration modes = configure(fred, flows, routing.choices);
    const Status status = check_configuration(fred, flows, modes);
    EXPECT_TRUE(status) << size.text() << " " << flows_text(flows) << ": "
                        << status.error().message;
    EXPECT_TRUE(routing.conflicts.empty());
  }
  for (const FlowConflict& conflict : routing.conflicts) {
    EXPECT_TRUE(conflict.is_least);
    const Status status = check_conflict(size, flows, conflict);
    EXPECT_TRUE(status) << size.text() << " " << flows_text(flows) << ": "
                        << status.error().message;
  }
  EXPECT_TRUE(routing.proved) << size.text() << " " << flows_text(flows);
  EXPECT_EQ(routing.routed, routing.conflicts.empty());
  return routing;
}

FlowRouting route(const FredSize& size, std::string_view text) {
  return checked(size, parse_flows(text, size.ports).value());
}

TEST(FredRouter, NamesTheSmallestConflictOfAllReduces) {
  const std::string flows = "0,2->0,2; 1,4->1,4; 3,5->3,5";
  const FlowRouting refused = route({6, 2}, flows);
  ASSERT_FALSE(refused.routed);
  EXPECT_EQ(refused.conflicts[0].flows, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(refused.conflicts[0].level, 0);
  EXPECT_TRUE(route({6, 3}, flows).routed);
  // One more flow is no part of it.
  EXPECT_EQ(route({8, 2}, "7->6; " + flows).conflicts[0].flows, (std::vector<int32_t>{1, 2, 3}));
}

TEST(FredRouter, FindsTheTriangleThatAnotherPlacementAvoids) {
  const std::string flows = "0,2->0,2; 1,5->1,5; 3,4->3,4; 6,7->6,7";
  EXPECT_FALSE(route({8, 2}, flows).routed);
  EXPECT_TRUE(route({8, 3}, flows).routed);
  EXPECT_TRUE(route({8, 2}, "0,2->0,2; 4,5->4,5; 3,1->1,3; 6,7->6,7").routed);
}

TEST(FredRouter, RoutesEveryPermutationWithTwoInTheMiddle) {
  for (int32_t ports = 2; ports <= 7; ++ports) {
    const FredSwitch fred = FredSwitch::create({ports, 2}).value();
    support::for_each_permutation(ports, [&](const std::vector<PortFlow>& flows) {
      const FlowRouting routing = route_flows(fred.size(), flows);
      ASSERT_TRUE(routing.routed) << flows_text(flows);
      ASSERT_TRUE(check_configuration(fred, flows, configure(fred, flows, routing.choices)));
    });
  }
}

TEST(FredRouter, RoutesNothingAndOneOfAnySize) {
  for (int32_t ports = 2; ports <= 9; ++ports) {
    for (int32_t middle = 2; middle <= 4; ++middle) {
      EXPECT_TRUE(checked({ports, middle}, {}).routed);
      std::vector<int32_t> all(at(ports));
      std::iota(all.begin(), all.end(), 0);
      EXPECT_TRUE(checked({ports, middle}, {{all, all}}).routed);
      EXPECT_TRUE(checked({ports, middle}, {{{ports - 1}, all}}).routed);
      EXPECT_TRUE(checked({ports, middle}, {{all, {0}}}).routed);
    }
  }
}

// The modes of all cells, one combination after the other, agree.
TEST(FredRouter, AgreesWithABruteForceOverTheModesOfCells) {
  Rng rng(7);
  int32_t refused = 0;
  for (int32_t round = 0; round < 4000; ++round) {
    const int32_t middle = 2 + static_cast<int32_t>(rng.below(2));
    const int32_t ports = 2 + static_cast<int32_t>(rng.below(middle == 2 ? 7 : 5));
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    const bool routed = checked({ports, middle}, flows).routed;
    EXPECT_EQ(routed, ModeTrial(middle).routes(ports, flows))
        << FredSize{ports, middle}.text() << " " << flows_text(flows);
    refused += routed ? 0 : 1;
  }
  EXPECT_GT(refused, 30);
}

// All ways of all flows, one after the other, agree.
TEST(FredRouter, AgreesWithASearchWireByWire) {
  Rng rng(8);
  int32_t refused[2] = {0, 0};
  for (int32_t round = 0; round < 4000; ++round) {
    const int32_t middle = 2 + static_cast<int32_t>(rng.below(round % 4 == 0 ? 4 : 2));
    const int32_t ports = 2 + static_cast<int32_t>(rng.below(11));
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    const FredSize size = {ports, middle};
    const auto routes = route_by_trial(size, flows, size.levels(), 1'000'000);
    const FlowRouting routing = checked(size, flows);
    if (routes.has_value()) {
      EXPECT_EQ(routing.routed, *routes) << size.text() << " " << flows_text(flows);
    }
    for (const FlowConflict& conflict : routing.conflicts) {
      ++refused[conflict.level > 0 ? 1 : 0];
    }
  }
  EXPECT_GT(refused[0], 100);
  EXPECT_GT(refused[1], 10);  // that only a level below refuses
}

TEST(FredRouter, GivesUpWhereTheBudgetEndsAndSaysSo) {
  Rng rng(3);
  int32_t gave_up = 0;
  for (int32_t round = 0; round < 200; ++round) {
    const std::vector<PortFlow> flows = random_flows(16, rng);
    const FlowRouting full = route_flows({16, 3}, flows);
    const FlowRouting little = route_flows({16, 3}, flows, {.budget = -6000});
    EXPECT_EQ(little.proved, little.routed || !little.conflicts.empty());
    if (little.proved && full.proved) {
      EXPECT_EQ(little.routed, full.routed);
    }
    gave_up += little.proved ? 0 : 1;
    const FlowRouting first = route_flows({16, 3}, flows, {.goes_back = false});
    EXPECT_LE(first.routed, full.routed);
  }
  EXPECT_GT(gave_up, 0);
}

}  // namespace
}  // namespace pleach
