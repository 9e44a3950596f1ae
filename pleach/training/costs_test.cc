// Measured costs say where the bound has to look.
#include "pleach/training/costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/policy/bound.h"

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

}  // namespace
}  // namespace pleach
