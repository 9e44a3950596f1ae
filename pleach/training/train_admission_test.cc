// What switches admit of a training, and what it is worth.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/topology/shapes.h"
#include "pleach/workload/workload.h"
#include "tests/support/trainings.h"

namespace pleach {
namespace {

struct Training {
  const char* model;
  const char* strategy;
  int64_t batch;
};

// A few layers of FRED's workloads, on an accelerator of so many operations a second that
// communication shows.
TrainingRow row_of(const std::string& fabric, const Training& training, AdmissionRule rule,
                   CostSource source = CostSource::kFull) {
  const auto topology = parse_topology(fabric);
  EXPECT_TRUE(topology);
  const auto accelerator = parse_accelerator("h100,operations=1e17,memory=300TB/s,overhead=50ns");
  EXPECT_TRUE(accelerator) << accelerator.error().message;
  const auto workload = load_workload(training.model, *accelerator, training.batch);
  EXPECT_TRUE(workload) << workload.error().message;
  NetworkChoice network{.source = source,
                        .topology = &*topology,
                        .fabric = {.algorithm = "in_switch,ring", .segment_count = 4}};
  network.fabric.simulation.admission = rule;
  const std::string text = training.strategy;
  for (const auto& [key, family] : {std::pair("stream=io", "io"), {"multicast", "pipeline"}}) {
    if (text.find(key) != std::string::npos) {
      network.fabric.family_algorithms[family] = "in_switch,ring";
    }
  }
  return only_row({.workload = *workload,
                   .strategy = strategy_of(text + ",optimizer=none", 20),
                   .network = network,
                   .policies = {"sequential"}});
}

// Free is what a crossbar takes: never longer, and as long where no stream had to wait.
TEST(TrainAdmission, IsWorthWhatStreamsWait) {
  int64_t waits = 0, goes_at_once = 0;
  for (const char* fabric : {"fred:B", "fred:D", "fred:D,middle=2"}) {
    for (const Training& training :
         {Training{"resnet152,element_bytes=2", "dp=20", 16},
          {"transformer_17b,layers=4", "dp=3,tp=3,pp=2,micro_batches=4,idle=2,outputs=multicast",
           8},
          {"gpt3,layers=4", "dp=5,tp=2,pp=2,micro_batches=2,stream=io,outputs=multicast", 2},
          {"transformer_1t,layers=2", "dp=20,micro_batches=1,stream=io", 2}}) {
      SCOPED_TRACE(std::string(fabric) + " " + training.model);
      const TrainingRow free = row_of(fabric, training, AdmissionRule::kFree);
      const TrainingRow together = row_of(fabric, training, AdmissionRule::kTogether);
      EXPECT_LE(free.run.iteration_ps, together.run.iteration_ps);
      ASSERT_TRUE(together.admission.has_value());
      EXPECT_EQ(together.admission->waited_ps > 0, !together.admission->conflicts.empty());
      if (together.admission->waited_ps == 0) {
        EXPECT_EQ(free.run.iteration_ps, together.run.iteration_ps);
        ++goes_at_once;
      } else {
        ++waits;
      }
    }
  }
  EXPECT_GT(waits, 2);  // so that both are seen
  EXPECT_GT(goes_at_once, 2);
}

// {0,2}, {1,4} and {3,5} route two by two on FRED_2(6), whichever two: the third one waits.
TEST(TrainAdmission, NamesGroups) {
  const auto topology = parse_topology(
      "switch_tree:6,reduce,multicast,switch=fred,middle=2,bandwidth=1GB/s,latency=100ns,header=0");
  ASSERT_TRUE(topology) << topology.error().message;
  const Workload workload = small_workload();
  const Strategy strategy = strategy_of("dp=3,tp=2,placement=0-2-1-4-3-5", 6);
  const auto row_with = [&](AdmissionRule rule, CostSource source) {
    NetworkChoice network{
        .source = source,
        .topology = &*topology,
        .fabric = {.algorithm = "in_switch", .family_algorithms = {{"data", "ring"}}}};
    network.fabric.simulation.admission = rule;
    return only_row({.workload = workload,
                     .strategy = strategy,
                     .network = network,
                     .policies = {"sequential"}});
  };
  const TrainingRow row = row_with(AdmissionRule::kTogether, CostSource::kFull);
  ASSERT_TRUE(row.admission.has_value());
  ASSERT_EQ(row.admission->conflicts.size(), 1U);
  const TraceConflict& conflict = row.admission->conflicts.front();
  EXPECT_EQ(conflict.node, topology->nodes().back().name);
  EXPECT_EQ(conflict.level, 0);
  // Two all_reduces a layer and way, of sixteen layers, in each iteration.
  EXPECT_EQ(conflict.count, 32 * row.run.iterations);
  ASSERT_EQ(conflict.groups.size(), 3U);
  for (std::size_t group = 0; group < 3; ++group) {
    EXPECT_EQ(conflict.groups[group].family, "tensor");
  }
  EXPECT_EQ(conflict.groups[0].ranks, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(conflict.groups[1].ranks, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(conflict.groups[2].ranks, (std::vector<int32_t>{3, 5}));
  // Each time the third one waits until the bytes of the first two have left the switch, which
  // those of the last layer do at half the rate, beside rings of gradients.
  const int64_t bytes = kBatch * 4096 * 4;
  EXPECT_EQ(row.admission->waited_ps, (conflict.count + row.run.iterations) * bytes * 1000);
  const TrainingRow free = row_with(AdmissionRule::kFree, CostSource::kFull);
  EXPECT_EQ(row.run.iteration_ps - free.run.iteration_ps, 32 * bytes * 1000);
  // Curves know of no streams.
  EXPECT_FALSE(row_with(AdmissionRule::kTogether, CostSource::kCurves).admission.has_value());
}

// A network all of whose switches carry whatever enters has nothing to say.
TEST(TrainAdmission, IsOfSwitchesThatRefuse) {
  EXPECT_FALSE(
      row_of("switch:20,reduce,multicast", {"resnet152", "dp=20", 16}, AdmissionRule::kTogether)
          .admission.has_value());
}

}  // namespace
}  // namespace pleach
