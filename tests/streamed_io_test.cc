// Weights that stream by the I/O nodes of a wafer, against closed forms.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/training/training.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

constexpr double kLine = 18 * 128e9;  // of all I/O nodes of a wafer

// So many parameters of two bytes, in layers that are blocks; a time is of one micro-batch.
Workload workload_of(double parameters, int32_t layers, int64_t layer_ps, int64_t batch = 1) {
  Workload workload;
  workload.model.name = "layers";
  workload.model.element_bytes = 2;
  workload.batch = batch;
  MeasuredTimes times;
  for (int32_t layer = 0; layer < layers; ++layer) {
    ModelLayer& one = workload.model.layers.emplace_back();
    one.name = "l" + std::to_string(layer);
    one.block = layer;
    one.output_elements = 1;
    one.is_split = true;
    one.tensors = {{"weight", static_cast<int64_t>(parameters / layers)}};
    times.layers.push_back({layer_ps, 2 * layer_ps, 0});
  }
  workload.times = std::move(times);
  return workload;
}

struct Io {
  std::string algorithm = "in_switch";
  CostSource source = CostSource::kCurves;
  int32_t segments = 1;
  TrafficClasses classes = {};
};

Result<TrainingRow> train_on(const Topology& topology, const Workload& workload,
                             const Strategy& strategy, const Io& io) {
  const TrainingRequest request = {
      .workload = workload,
      .strategy = strategy,
      .network = {.source = io.source,
                  .topology = &topology,
                  .fabric = {.family_algorithms = {{"io", io.algorithm}},
                             .segment_count = io.segments}},
      .policies = {"wfbp"},
      .iteration = {.keep_spans = true, .classes = io.classes}};
  PLEACH_ASSIGN(rows, train(request));
  return rows.front();
}

// How long loads, or stores, were under way in an iteration, of worker 0.
double moving_s(const TrainingRow& row, TraceNodeKind kind) {
  int64_t sum_ps = 0;
  for (const IterationSpan& span : row.run.spans) {
    if (span.worker == 0 && row.trace->workers[0].nodes[at(span.node)].kind == kind) {
      sum_ps += span.end_ps - span.begin_ps;
    }
  }
  return static_cast<double>(sum_ps) / static_cast<double>(kPicosecondsPerSecond);
}

double seconds_of(int64_t time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerSecond);
}

// All weights of 175 and of 1,000 billion parameters, to all ranks of a wafer: as long as the I/O
// nodes take for them, and where a trunk carries less, by that much longer: of the 18, 15 are
// behind the other switches of one that has 3, and 15 times 128 GB/s come down 1.5 TB/s. In
// The hottest link of the mesh carries what 9 nodes send, 1152 GB/s, at 750 GB/s. In
// backward 14 sums for the nodes of other switches go up a trunk with what 4 of its own send, where
// full costs say so: 18 share it.
TEST(StreamedIo, APassTakesWhatIoNodesDo) {
  struct Case {
    const char* wafer;
    Io io;
    double attained;  // of the I/O nodes' bandwidth, both passes together
    std::vector<double> parameters = {175e9, 1e12};
  };
  const double of_15 = 1.5e12 / (15 * 128e9), of_18 = 1.5e12 / (18 * 128e9);
  const Case cases[] = {
      {"fred:D", {}, 1},
      {"fred:D", {.source = CostSource::kFull}, 1},
      {"fred:C", {.algorithm = "in_switch,ring", .segments = 16}, 1, {1e12}},
      {"wafer_mesh:5x4", {.algorithm = "io_tree", .segments = 64}, 750.0 / (9 * 128)},
      {"fred:B", {}, of_15},
      {"fred:B", {.source = CostSource::kFull}, 2 / (1 / of_15 + 1 / of_18), {1e12}}};
  for (const auto& [wafer, io, attained, sizes] : cases) {
    const Topology topology = topology_of(wafer);
    for (const double parameters : sizes) {
      SCOPED_TRACE(std::string(wafer) + " " + io.algorithm + " " + std::to_string(parameters));
      const double pass_s = parameters * 2 / kLine / attained;
      const auto row = train_on(topology, workload_of(parameters, 50, 0),
                                {.data = 20, .optimizer = false, .streams_by_io = true}, io);
      ASSERT_TRUE(row) << row.error().message;
      EXPECT_NEAR(moving_s(*row, TraceNodeKind::kLoad), 2 * pass_s, 2 * pass_s * 0.05);
      // Gradients of the last layer leave when all weights have come twice.
      const double iteration_s = seconds_of(row->run.iteration_ps);
      EXPECT_GT(iteration_s, 2 * pass_s);
      EXPECT_LT(iteration_s, 2.04 * pass_s * 1.05);
      EXPECT_LE(row->bound_ps, row->run.iteration_ps);
      EXPECT_EQ(row->run.workers[0].load_wait_ps, row->run.iteration_ps);
    }
  }
}

// Whatever the micro-batches, stages and tensor groups, the same bytes come in: where computation
// takes no time, as long as the I/O nodes take for them. Sharing a link with nothing, curves and
// full costs agree.
TEST(StreamedIo, TakesTheSameHoweverItIsCut) {
  const Topology topology = topology_of("fred:D");
  const double pass_s = 20e9 * 2 / kLine;
  for (const int32_t micro_batches : {1, 2, 4}) {
    for (const auto& [tensor, pipeline] : {std::pair(1, 1), {2, 2}, {4, 5}}) {
      const Strategy strategy = {.data = 20 / tensor / pipeline,
                                 .tensor = tensor,
                                 .pipeline = pipeline,
                                 .micro_batches = micro_batches,
                                 .streams_by_io = true};
      SCOPED_TRACE(to_text(strategy));
      for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
        const auto row =
            train_on(topology, workload_of(20e9, 40, 0, 4), strategy, {.source = source});
        ASSERT_TRUE(row) << row.error().message;
        // The last window's gradients leave behind the rest.
        const double most_s = pass_s * (2 + 1.1 * pipeline / 40);
        EXPECT_GT(seconds_of(row->run.iteration_ps), 1.99 * pass_s);
        EXPECT_LT(seconds_of(row->run.iteration_ps), most_s * 1.02);
        EXPECT_LE(row->bound_ps, row->run.iteration_ps);
      }
    }
  }
}

// Where computation takes longer, only the first window's load and the last one's store are to be
// seen.
TEST(StreamedIo, HidesBehindComputation) {
  const Topology topology = topology_of("fred:D");
  const int32_t layers = 10;
  const Workload workload = workload_of(1e9, layers, 1'000'000'000);  // 1 ms; loads: 87 us
  const double load_s = 1e9 / layers * 2 / kLine;
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    const auto row =
        train_on(topology, workload, {.data = 20, .streams_by_io = true}, {.source = source});
    ASSERT_TRUE(row) << row.error().message;
    EXPECT_NEAR(seconds_of(row->run.iteration_ps), 30e-3 + 2 * load_s, load_s * 0.01);
    EXPECT_EQ(row->run.workers[0].load_wait_ps, row->exposed_ps);
    EXPECT_EQ(row->run.workers[0].input_wait_ps, 0);
  }
}

// The samples come first, to each tensor group its own.
TEST(StreamedIo, ShowsTheFirstInput) {
  const Topology topology = topology_of("fred:D");
  const int32_t layers = 10;
  Workload workload = workload_of(1e9, layers, 1'000'000'000, 4);
  workload.model.input_bytes = 23'040'000;
  const double load_s = 1e9 / layers * 2 / kLine;
  for (const int32_t tensor : {1, 4}) {
    for (const int32_t micro_batches : {1, 4}) {
      const Strategy strategy = {.data = 20 / tensor,
                                 .tensor = tensor,
                                 .micro_batches = micro_batches,
                                 .streams_by_io = true};
      SCOPED_TRACE(to_text(strategy));
      const auto row = train_on(topology, workload, strategy, {.source = CostSource::kFull});
      ASSERT_TRUE(row) << row.error().message;
      const double input_s = 23.04e6 * 4 / micro_batches * strategy.data / kLine;
      const WorkerTimes& waits = row->run.workers[0];
      EXPECT_NEAR(seconds_of(waits.input_wait_ps), input_s, input_s * 0.01);
      EXPECT_NEAR(seconds_of(waits.load_wait_ps), input_s + 2 * load_s, input_s * 0.01);
      EXPECT_EQ(waits.load_wait_ps, row->exposed_ps);
    }
  }
}

// Loads leave to collectives of tensor groups what these want, where classes say so: 12 TB/s out of
// a switch are enough for both, but 3 TB/s into a rank are not.
TEST(StreamedIo, GivesWayByClass) {
  Workload workload = workload_of(4e9, 10, 1'000'000'000);
  for (ModelLayer& layer : workload.model.layers) {
    layer.forward_sum_elements = layer.backward_sum_elements = 500'000'000;
  }
  const Topology topology = topology_of("fred:D");
  const auto wait_ps = [&](const TrafficClasses& classes) {
    const auto row = train_on(topology, workload, {.data = 10, .tensor = 2, .streams_by_io = true},
                              {.source = CostSource::kFull, .segments = 16, .classes = classes});
    EXPECT_TRUE(row) << row.error().message;
    return row->run.workers[0].collective_wait_ps;
  };
  const int64_t alone_ps = wait_ps(*TrafficClasses::in_order({"tensor", "io"}));
  EXPECT_EQ(wait_ps(TrafficClasses::by_role()), alone_ps);
  EXPECT_GT(wait_ps({}), alone_ps);
  EXPECT_GT(wait_ps(*TrafficClasses::in_order({"io"})), alone_ps);
}

TEST(StreamedIo, NeedsIoNodes) {
  const Workload workload = workload_of(1e6, 2, 1);
  const Strategy strategy = {.data = 4, .streams_by_io = true};
  const Topology mesh = topology_of("mesh:2x2");
  for (const CostSource source : {CostSource::kCurves, CostSource::kFull}) {
    const auto refused =
        train_on(mesh, workload, strategy, {.algorithm = "ring", .source = source});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "weights by I/O nodes (stream=io): topology mesh:2x2 has no I/O nodes");
  }
  const TrainingRequest numbers = {
      .workload = workload,
      .strategy = strategy,
      .network = {.source = CostSource::kAlphaBeta, .bandwidth_bytes_per_s = 1e9},
      .policies = {"wfbp"}};
  const auto refused = train(numbers);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "weights by I/O nodes (stream=io): only costs of curves and full know of any");
}

}  // namespace
}  // namespace pleach
