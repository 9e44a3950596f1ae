// Curves that end below the largest size, and curves of models that are slow.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/topology/shapes.h"
#include "pleach/training/training.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

// A ring's curves are lines from far below a KiB on, so that nothing is lost where they end early.
TEST(Curves, EndWhereTheyAreToldAndSaySo) {
  const Workload workload = small_workload();
  const auto topology = parse_topology("ring:4,bandwidth=16GB/s");
  ASSERT_TRUE(topology);
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("", 4),
                          .network = {.topology = &*topology},
                          .policies = {"sequential"}};
  const TrainingRow whole = only_row(request);
  EXPECT_EQ(whole.curve_end_bytes, 0);
  std::vector<std::string> told;
  request.progress = [&](const std::string& line) { told.push_back(line); };
  request.network.fabric.curve_end_bytes = 1024;
  const TrainingRow ended = only_row(request);
  EXPECT_EQ(ended.curve_end_bytes, 1024);
  EXPECT_NEAR(static_cast<double>(ended.run.iteration_ps),
              static_cast<double>(whole.run.iteration_ps), 100);
  EXPECT_EQ(told.front(),
            "curves are simulated up to 1 KiB; what is larger follows their last slope");
  request.network.fabric.curve_end_bytes = int64_t{1} << 40;
  EXPECT_EQ(only_row(request).curve_end_bytes, 0);
}

TEST(Curves, OfASlowModelEndAtItsSize) {
  const FabricOptions flow, flit = {.model = "flit"};
  const FabricOptions both = {.model = "flit", .curve_end_bytes = 1000};
  constexpr int64_t kMiB = 1 << 20;
  EXPECT_EQ(curve_end_bytes(flow, 100 * kMiB).value(), 100 * kMiB);
  EXPECT_EQ(curve_end_bytes(flit, 100 * kMiB).value(), 16 * kMiB);
  EXPECT_EQ(curve_end_bytes(flit, kMiB).value(), kMiB);
  EXPECT_EQ(curve_end_bytes(both, kMiB).value(), 1000);
}

// Curves of the flit model, which full costs refuse before anything is simulated.
TEST(Curves, AreOfTheOptionsOfSimulations) {
  const Workload workload = plain_workload(2, kMs, 2 * kMs);
  const auto topology = parse_topology("torus:2x2,bandwidth=16GB/s");
  ASSERT_TRUE(topology);
  TrainingRequest request{.workload = workload,
                          .strategy = strategy_of("", 4),
                          .network = {.topology = &*topology, .fabric = {.model = "flit"}},
                          .policies = {"sequential"}};
  const int64_t packets_ps = only_row(request).run.iteration_ps;
  request.network.fabric.simulation.flow_control = FlowControl::kMessage;
  EXPECT_LT(only_row(request).run.iteration_ps, packets_ps);
  request.network.source = CostSource::kFull;
  bool has_begun = false;
  request.progress = [&](const std::string&) { has_begun = true; };
  const auto full = train(request);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().message,
            "network model flit: its jobs do not share links as they come, as full costs ask for");
  EXPECT_FALSE(has_begun);
}

}  // namespace
}  // namespace pleach
