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

// Collectives of two families of all ranks, at these sizes; the second one's are gradients too.
Trace trace_at(const std::vector<int64_t>& sizes_bytes) {
  Trace trace{.name = "sizes", .rank_count = 4, .names = {"one"}};
  trace.families = {{"tensor", {{0, 1, 2, 3}}, FamilyRole::kTensor},
                    {"data", {{0, 1, 2, 3}}, FamilyRole::kData}};
  trace.gradient_groups = {{.name = "data", .family = 1}};
  trace.workers.emplace_back();
  trace.workers.front().ranks = {0, 1, 2, 3};
  for (const int64_t size_bytes : sizes_bytes) {
    for (const int32_t family : {0, 1}) {
      trace.workers.front().add(
          {.kind = TraceNodeKind::kCollective, .family = family, .size_bytes = size_bytes}, {});
    }
  }
  return trace;
}

// Where packets make the line between a curve's sizes wrong by some per mille.
TEST(FabricCosts, OfAFewSizesAreSimulatedAtThese) {
  const auto topology = parse_topology("ring:4,bandwidth=1GB/s,latency=1us,header=64,packet=1024");
  ASSERT_TRUE(topology);
  const std::vector<int32_t> all = {0};
  const auto asked_ps = [&](const std::vector<int64_t>& sizes, int32_t family, int64_t size_bytes,
                            int64_t largest_bytes = 1 << 20) {
    const Trace trace = trace_at(sizes);
    const auto costs = fabric_costs(*topology, trace, {}, largest_bytes);
    const auto time_ps =
        costs->collective_ps({.family = family, .groups = &all, .size_bytes = size_bytes});
    EXPECT_TRUE(time_ps);
    return time_ps ? *time_ps : 0;
  };
  // (n-1) · 2 hops of a quarter, each of which is 1 us and its bytes with a header every 1024.
  const auto exact_ps = [](int64_t size_bytes) {
    const int64_t quarter_bytes = size_bytes / 4;
    return 6 * (1'000'000 + 1'000 * (quarter_bytes + (quarter_bytes + 1023) / 1024 * 64));
  };
  const std::vector<int64_t> few = {81'924, 90'000, 100'004};
  for (const int64_t size_bytes : few) {
    EXPECT_EQ(asked_ps(few, 0, size_bytes), exact_ps(size_bytes)) << size_bytes;
  }
  std::vector<int64_t> many = few;
  for (int64_t size_bytes = 200'000; many.size() < 17; size_bytes += 4) {
    many.push_back(size_bytes);
  }
  const int64_t on_curve_ps = asked_ps(many, 0, 81'924);
  EXPECT_NE(on_curve_ps, exact_ps(81'924));
  EXPECT_NEAR(static_cast<double>(on_curve_ps), static_cast<double>(exact_ps(81'924)),
              0.005 * static_cast<double>(exact_ps(81'924)));
  // A size that the trace does not have; one beyond the end of curves; and what policies plan with.
  EXPECT_EQ(asked_ps({5'000}, 0, 81'924), on_curve_ps);
  EXPECT_NE(asked_ps({1 << 20}, 0, 1 << 20, 1 << 12), exact_ps(1 << 20));
  EXPECT_EQ(asked_ps({81'924}, 1, 81'924), on_curve_ps);
}

}  // namespace
}  // namespace pleach
