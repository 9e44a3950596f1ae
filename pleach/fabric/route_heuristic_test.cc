#include "pleach/fabric/route_heuristic.h"

#include <gtest/gtest.h>

#include "pleach/fabric/configuration.h"
#include "pleach/fabric/fred_router.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

// It finds what the exact search finds, mostly, and never what does not route.
TEST(RouteHeuristic, FindsRoutingsThatAreRight) {
  Rng rng(4);
  int32_t found = 0;
  int32_t routable = 0;
  for (int32_t round = 0; round < 300; ++round) {
    const FredSize size = {3 + static_cast<int32_t>(rng.below(20)),
                           2 + static_cast<int32_t>(rng.below(2))};
    const std::vector<PortFlow> flows = support::random_flows(size.ports, rng);
    SearchBudget budget = {20'000};
    const auto choices = look_for_choices(size, flows, budget);
    const bool routes = route_flows(size, flows).routed;
    routable += routes ? 1 : 0;
    if (!choices.has_value()) {
      continue;
    }
    ++found;
    EXPECT_TRUE(routes) << size.text() << " " << flows_text(flows);
    const FredSwitch fred = FredSwitch::create(size).value();
    EXPECT_TRUE(check_configuration(fred, flows, configure(fred, flows, *choices)));
  }
  EXPECT_GT(found, routable * 9 / 10);
}

}  // namespace
}  // namespace pleach
