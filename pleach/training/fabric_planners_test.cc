#include "pleach/training/fabric_planners.h"

#include <gtest/gtest.h>

#include <array>

#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

Trace two_families() {
  Trace trace;
  trace.rank_count = 4;
  trace.families = {{.name = "tensor", .groups = {{0, 1}, {2, 3}}},
                    {.name = "data", .groups = {{0, 2}, {1, 3}}}};
  return trace;
}

// Kinds have planners of their own, and so has a family that the options name.
TEST(FabricPlanners, PlanByKindAndByFamily) {
  const auto topology = parse_topology("fully_connected:4");
  ASSERT_TRUE(topology);
  const Trace trace = two_families();
  FabricPlanners planners(*topology, trace,
                          {.algorithm = "ring",
                           .exchange_algorithm = "direct",
                           .family_algorithms = {{"tensor", "recursive_doubling"}}});
  const struct {
    int32_t family;
    Kind kind;
    std::string algorithm;
  } cases[] = {
      {0, Kind::kAllReduce, "recursive_doubling"},
      {1, Kind::kAllReduce, "ring"},
      {1, Kind::kAllGather, "ring"},
      {1, Kind::kAllToAll, "direct"},
  };
  for (const auto& [family, kind, algorithm] : cases) {
    const auto planner = planners.planner(family, kind);
    ASSERT_TRUE(planner);
    const auto& group = trace.families[static_cast<std::size_t>(family)].groups.front();
    const auto choice =
        (*planner)->choose({.collective = kind, .participants = nodes_of(*topology, group)});
    ASSERT_TRUE(choice) << choice.error().message;
    EXPECT_EQ(choice->schedule->provenance.algorithm, algorithm);
  }
  EXPECT_EQ(*planners.planner(1, Kind::kAllReduce), *planners.planner(1, Kind::kAllGather));
}

TEST(SharedNetwork, RefusesWhatDoesNotStep) {
  const auto topology = parse_topology("ring:4");
  ASSERT_TRUE(topology);
  const Trace trace = two_families();
  const struct {
    FabricOptions options;
    std::string message;
  } cases[] = {
      {{.model = "analytic"},
       "network model analytic: its jobs do not share links as they come, as full costs ask for"},
      {{.model = "flwo"}, "unknown network model 'flwo'"},
      {{.segment_count = std::nullopt}, "full costs ask for one number of segments"},
  };
  for (const auto& [options, message] : cases) {
    const auto network = shared_network(*topology, trace, options);
    ASSERT_FALSE(network) << message;
    EXPECT_EQ(network.error().message.substr(0, message.size()), message);
  }
}

}  // namespace
}  // namespace pleach
