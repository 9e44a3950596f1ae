// No policy is below the bound, whatever it is that links are shared with.
#include "pleach/training/training_bound.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/topology/shapes.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

// ---------------------------------

struct SharedCase {
  const char* strategy;
  const char* topology;
  const char* algorithm;
  int32_t segments = 1;
};

// Stages and groups come to their collectives at different times, so that with full costs less of
// them meets than in a curve, where all groups of a family go at once.
TEST(Bounds, HoldForEveryPolicyWithCurvesAndWithFullCosts) {
  const Workload workload = small_workload();
  const SharedCase cases[] = {
      {"dp=2,tp=2,pp=2,micro_batches=8", "mesh:2x4,bandwidth=1GB/s", "ring", 4},
      {"dp=2,tp=3,pp=2,micro_batches=8", "mesh:3x4,bandwidth=30GB/s", "ring", 4},
      {"tp=2", "mesh:2x4,bandwidth=1GB/s", "ring", 4},
      {"tp=4,tensor_sequence=on", "switch:8,bandwidth=2GB/s", "halving_doubling"},
      {"dp=2,tp=2,pp=2,micro_batches=4", "ring:8,bandwidth=4GB/s,latency=20us", "ring"},
      {"pp=4,micro_batches=8", "mesh:2x4,bandwidth=500MB/s", "direct"},
      {"sp=2,pp=2,micro_batches=4", "mesh:2x4,bandwidth=1GB/s", "ring"},
      {"ep=2,tp=2", "mesh:2x4,bandwidth=1GB/s", "ring"},
      {"ep=4", "torus:2x4,bandwidth=1GB/s", "multitree"},
      {"", "torus:2x4,bandwidth=1GB/s", "multitree", 3},
      {"dp=2,tp=3,idle=2", "mesh:2x4,bandwidth=300MB/s", "ring", 2},
      {"dp=1,tp=2,pp=4,micro_batches=4", "mesh:2x4,bandwidth=1GB/s", "ring"},
      {"dp=1,tp=4,pp=2,micro_batches=4,outputs=multicast", "mesh:2x4,bandwidth=1GB/s", "direct"},
  };
  int near = 0;
  for (const auto& [strategy, spec, algorithm, segments] : cases) {
    const auto topology = parse_topology(spec);
    ASSERT_TRUE(topology);
    for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
      for (const std::string& policy : all_policies()) {
        SCOPED_TRACE(testing::Message() << strategy << " on " << spec << " by " << algorithm << ", "
                                        << policy << (source == CostSource::kFull ? ", full" : ""));
        const TrainingRow row =
            only_row({.workload = workload,
                      .strategy = strategy_of(strategy, count_of(topology->rank_nodes())),
                      .network = {.source = source,
                                  .topology = &*topology,
                                  .fabric = {.algorithm = algorithm, .segment_count = segments}},
                      .policies = {policy}});
        EXPECT_GE(row.run.iteration_ps, row.bound_ps);
        EXPECT_GE(row.bound_ps, row.compute_ps);
        near += row.run.iteration_ps < row.bound_ps + row.bound_ps / 20 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(near, 30) << "bounds that nothing comes near say nothing";
}

// Micro-batches of two stages overlap, and their tensor groups meet less than in the curve.
TEST(Bounds, OfFullCostsChargeNoSharingThatNeedNotBe) {
  const auto accelerator = parse_accelerator("h100");
  const auto topology = parse_topology("mesh:4x5,bandwidth=750GB/s,latency=20ns");
  ASSERT_TRUE(accelerator && topology);
  const auto workload = load_workload("transformer_17b,layers=6", *accelerator, 0);
  ASSERT_TRUE(workload) << workload.error().message;
  const TrainingRow row =
      only_row({.workload = *workload,
                .strategy = strategy_of("tp=3,dp=3,pp=2,micro_batches=8,idle=2", 20),
                .network = {.source = CostSource::kFull,
                            .topology = &*topology,
                            .fabric = {.algorithm = "ring", .segment_count = 16}},
                .policies = {"wfbp"}});
  EXPECT_GE(row.run.iteration_ps, row.bound_ps);
  EXPECT_LE(ratio(row.run.iteration_ps, row.bound_ps), 1.1);
}

}  // namespace
}  // namespace pleach
