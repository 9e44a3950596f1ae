// Measured costs say where the bound has to look.
#include "pleach/training/costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/policy/bound.h"
#include "pleach/topology/shapes.h"
#include "pleach/training/trace_network.h"

namespace pleach {
namespace {

// Startups weigh on small messages, congestion on large ones: 3000 bytes are cheapest, for 500 ps
// each. At 2048 and at 4096 bytes each takes more than 550 ps.
TEST(CurveCosts, BoundIterationsByTheirCheapestSample) {
  CurveCosts costs;
  costs.set(CollectiveKind::kAllReduce,
            CostCurve::from_samples({{1, 1'000'000}, {3000, 1'500'000}, {9000, 9'000'000}}));
  EXPECT_EQ(costs.breakpoints(CollectiveKind::kAllReduce), (std::vector<int64_t>{1, 3000, 9000}));
  EXPECT_GT(costs.time_ps(CollectiveKind::kAllReduce, 2048), 2048 * 550);
  EXPECT_GT(costs.time_ps(CollectiveKind::kAllReduce, 4096), 4096 * 550);
  const TrainingProfile profile{.layers = {{.tensor_bytes = {12'000}}}, .rank_count = 8};
  EXPECT_EQ(iteration_bound(profile, costs).communication_ps, 12'000 * 500);
  // A model too small for that size.
  const TrainingProfile small{.layers = {{.tensor_bytes = {1000}}}, .rank_count = 8};
  EXPECT_EQ(iteration_bound(small, costs).communication_ps,
            costs.time_ps(CollectiveKind::kAllReduce, 1000));
}

// A message costs what its ranks' way does: a training has several traces, whose workers differ.
TEST(FabricCosts, OfMessagesAreThoseOfTheirRanks) {
  const auto topology = parse_topology("ring:8,bandwidth=1GB/s,latency=1us");
  ASSERT_TRUE(topology);
  const Trace trace{.name = "none", .rank_count = 8};
  const auto costs = fabric_costs(*topology, trace, {}, 1 << 20);
  const auto send_ps = [&](const std::vector<int32_t>& sources,
                           const std::vector<int32_t>& targets) {
    const auto time_ps =
        costs->send_ps({.sources = &sources, .targets = &targets, .size_bytes = 1000});
    EXPECT_TRUE(time_ps);
    return time_ps ? *time_ps : 0;
  };
  EXPECT_EQ(send_ps({0}, {1}), 2'000'000);
  EXPECT_EQ(send_ps({0}, {4}), 5'000'000);
  EXPECT_EQ(send_ps({0, 1}, {1, 2}), 2'000'000);
  EXPECT_GE(send_ps({0, 1}, {2, 3}), 4'000'000);  // both pass from 1 to 2
}

}  // namespace
}  // namespace pleach
