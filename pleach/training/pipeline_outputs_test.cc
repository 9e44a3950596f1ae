// Outputs of stages as broadcasts.
#include <gtest/gtest.h>

#include <string>

#include "pleach/topology/shapes.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

// Of `strategy`, which goes on "dp=1,tp=2,pp=3,micro_batches=4".
TrainingRow row_of(const std::string& topology_spec, const std::string& strategy,
                   const NetworkChoice& choice) {
  const auto topology = parse_topology(topology_spec);
  EXPECT_TRUE(topology);
  const Workload workload = small_workload();
  NetworkChoice network = choice;
  network.topology = &*topology;
  return only_row({.workload = workload,
                   .strategy = strategy_of("dp=1,tp=2,pp=3,micro_batches=4" + strategy, 6),
                   .network = network,
                   .policies = {"wfbp"}});
}

NetworkChoice broadcasts_by(const std::string& algorithm, CostSource source) {
  return {.source = source, .fabric = {.family_algorithms = {{"pipeline", algorithm}}}};
}

// A switch that copies hands each rank of the next stage the same bytes as a message of its own
// would: through the port of one rank, not of two.
TEST(PipelineOutputs, TakeWhatMessagesTakeWhereTheSwitchCopies) {
  const std::string topology = "switch:6,reduce,multicast,bandwidth=2GB/s,latency=3us";
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    const TrainingRow pairs = row_of(topology, "", {.source = source});
    const TrainingRow row =
        row_of(topology, ",outputs=multicast", broadcasts_by("in_switch", source));
    EXPECT_EQ(row.run.iteration_ps, pairs.run.iteration_ps);
    EXPECT_GE(row.run.iteration_ps, row.bound_ps);
  }
}

// Elsewhere it takes an algorithm, and where both ranks get it from one that takes longer; and an
// overhead like every collective.
TEST(PipelineOutputs, TakeAnAlgorithmElsewhere) {
  const std::string topology = "switch:6,bandwidth=2GB/s,latency=3us";
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    const TrainingRow pairs = row_of(topology, "", {.source = source});
    for (const char* algorithm : {"direct", "in_switch,ring"}) {
      NetworkChoice network = broadcasts_by(algorithm, source);
      const TrainingRow row = row_of(topology, ",outputs=multicast", network);
      EXPECT_GT(row.run.iteration_ps, pairs.run.iteration_ps) << algorithm;
      EXPECT_GE(row.run.iteration_ps, row.bound_ps) << algorithm;
      network.overhead_ps = 5'000'000;
      EXPECT_GT(row_of(topology, ",outputs=multicast", network).run.iteration_ps,
                row.run.iteration_ps + 5'000'000)
          << algorithm;
    }
  }
}

}  // namespace
}  // namespace pleach
