// Weights that stream, against a model of windows of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/training/free_iteration.h"
#include "pleach/workload/strategy.h"

namespace pleach {
namespace {

constexpr int64_t kRate = 1'000'000'000'000;  // a byte takes 1 ps
constexpr int64_t kMessagePs = 7;

class Costs : public OperationCosts {
 public:
  Result<int64_t> collective_ps(const GroupCollective& what) override { return what.size_bytes; }
  Result<int64_t> send_ps(const WorkerSend& /*what*/) override { return kMessagePs; }
};

// Each layer a block of its own; a time is of one micro-batch, as the batch is `micro_batches`.
struct Layer {
  int64_t forward_ps = 0;
  int64_t backward_ps = 0;
  int64_t bytes = 0;  // 0: no weights
};

Workload workload_of(const std::vector<Layer>& layers, int32_t micro_batches) {
  Workload workload;
  workload.model.name = "random";
  workload.model.element_bytes = 1;
  workload.batch = micro_batches;
  MeasuredTimes times;
  for (const Layer& layer : layers) {
    ModelLayer& one = workload.model.layers.emplace_back();
    one.name = "l" + std::to_string(times.layers.size());
    one.block = count_of(times.layers);
    one.output_elements = 5;
    if (layer.bytes > 0) {
      one.tensors = {{"weight", layer.bytes}};
    }
    times.layers.push_back({layer.forward_ps, layer.backward_ps, 0});
  }
  workload.times = std::move(times);
  return workload;
}

// Layers of each window and stage: one, as each is a block of its own; on one stage also those
// before it of less than a 16th of the largest, and at the end those behind it.
std::vector<std::vector<Layer>> runs_of(const std::vector<Layer>& layers, int32_t stages) {
  const int64_t least = stages > 1 ? 0 : std::ranges::max(layers, {}, &Layer::bytes).bytes / 16;
  std::vector<std::vector<Layer>> runs(1);
  int64_t bytes = -1;  // of the last run; none is begun
  for (const Layer& layer : layers) {
    if (bytes >= least) {
      runs.emplace_back();
      bytes = -1;
    }
    runs.back().push_back(layer);
    bytes = std::max<int64_t>(bytes, 0) + layer.bytes;
  }
  if (runs.size() > 1 && bytes < least) {
    std::vector<Layer>& before = runs[runs.size() - 2];
    before.insert(before.end(), runs.back().begin(), runs.back().end());
    runs.pop_back();
  }
  return runs;
}

// When the last of an iteration ends, by the rules: run r is on stage r mod `stages`; all
// micro-batches pass it, in forward and then back; a stage's stream of loads brings its weights
// once each way, layer by layer, and has no more than two runs' at a time; gradients leave once.
// By I/O nodes a run's gradients have room when those of the one two before have left.
int64_t expected_ps(const std::vector<std::vector<Layer>>& runs, int32_t stages,
                    int32_t micro_batches, bool by_io) {
  struct Stage {
    int64_t computes_ps = 0, loads_ps = 0, stores_ps = 0;  // until then
    std::vector<int64_t> visit_ends_ps;                    // with weights
    std::vector<int64_t> store_ends_ps;
  };
  std::vector<Stage> state(at(stages));
  std::vector<int64_t> arrived_ps(at(micro_batches), 0);  // at the run at hand
  int64_t last_ps = 0;
  const auto pass = [&](int32_t run, bool is_forward) {
    std::vector<Layer> layers = runs[at(run)];
    if (!is_forward) {
      std::ranges::reverse(layers);
    }
    Stage& stage = state[at(run % stages)];
    const bool has_weights =
        std::ranges::any_of(layers, [](const Layer& layer) { return layer.bytes > 0; });
    std::vector<int64_t> loaded_ps(layers.size(), 0), left_ps(layers.size(), 0);
    if (has_weights) {
      const std::size_t visits = stage.visit_ends_ps.size();
      const int64_t free_ps = visits >= 2 ? stage.visit_ends_ps[visits - 2] : 0;
      const std::size_t stores = stage.store_ends_ps.size();
      const int64_t room_ps = by_io && stores >= 2 ? stage.store_ends_ps[stores - 2] : 0;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].bytes > 0) {
          stage.loads_ps = std::max(stage.loads_ps, free_ps) + layers[i].bytes;
          loaded_ps[i] = std::max(stage.loads_ps, room_ps);
        }
      }
    }
    for (int64_t& ready_ps : arrived_ps) {
      for (std::size_t i = 0; i < layers.size(); ++i) {
        stage.computes_ps = std::max({stage.computes_ps, ready_ps, loaded_ps[i]}) +
                            (is_forward ? layers[i].forward_ps : layers[i].backward_ps);
        left_ps[i] = stage.computes_ps;
      }
      ready_ps = stage.computes_ps + (stages > 1 ? kMessagePs : 0);
    }
    if (has_weights) {  // until the last that has some is computed
      stage.visit_ends_ps.push_back(0);
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].bytes > 0) {
        stage.visit_ends_ps.back() = left_ps[i];
      }
    }
    if (has_weights && !is_forward) {
      for (std::size_t i = 0; i < layers.size(); ++i) {
        if (layers[i].bytes > 0) {
          stage.stores_ps = std::max(stage.stores_ps, left_ps[i]) + layers[i].bytes;
        }
      }
      stage.store_ends_ps.push_back(stage.stores_ps);
    }
    last_ps = std::max({last_ps, stage.computes_ps, stage.stores_ps});
  };
  for (int32_t run = 0; run < count_of(runs); ++run) {
    pass(run, true);
  }
  // No message turns round.
  for (int64_t& ready_ps : arrived_ps) {
    ready_ps -= stages > 1 ? kMessagePs : 0;
  }
  for (int32_t run = count_of(runs); run-- > 0;) {
    pass(run, false);
  }
  return last_ps;
}

using Moved = std::map<std::pair<TraceNodeKind, int32_t>, int64_t>;  // by kind and name: nodes

Moved moved_in(const Trace& trace) {
  Moved moved;
  for (const WorkerTrace& worker : trace.workers) {
    for (const TraceNode& node : worker.nodes) {
      if (node.kind == TraceNodeKind::kLoad || node.kind == TraceNodeKind::kStore) {
        ++moved[{node.kind, node.name}];
      }
    }
  }
  return moved;
}

// Every number of layers, stages and micro-batches up to 8, 4 and 5: none stops, all take what the
// rules say, and all load the same bytes.
TEST(StreamedWindows, TakeWhatTheRulesSay) {
  Rng rng(3);
  const auto draw = [&](uint64_t bound) { return static_cast<int64_t>(rng.below(bound)); };
  for (int32_t layer_count = 1; layer_count <= 8; ++layer_count) {
    for (int32_t round = 0; round < 6; ++round) {
      std::vector<Layer> layers(at(layer_count));
      for (Layer& layer : layers) {
        layer = {1 + draw(40), 1 + draw(80), draw(5) == 0 ? 0 : 1 + draw(200)};
      }
      std::optional<Moved> moved;
      for (int32_t stages = 1; stages <= std::min(layer_count, 4); ++stages) {
        for (int32_t micro_batches = 1; micro_batches <= 5; ++micro_batches) {
          const Workload workload = workload_of(layers, micro_batches);
          const bool by_io = draw(2) == 0;  // a byte takes 1 ps, too
          const Strategy strategy = {.data = 2,
                                     .pipeline = stages,
                                     .micro_batches = micro_batches,
                                     .schedule = static_cast<PipelineSchedule>(draw(2)),
                                     .stream_bytes_per_s = by_io ? 0 : kRate,
                                     .streams_by_io = by_io};
          SCOPED_TRACE(std::to_string(layer_count) + " layers, round " + std::to_string(round) +
                       ", " + to_text(strategy));
          const Result<Trace> trace = build_trace({.workload = workload, .strategy = strategy});
          ASSERT_TRUE(trace) << trace.error().message;
          Costs costs;
          const Result<FreeIteration> run = run_without_gradients(*trace, costs, {}, false);
          ASSERT_TRUE(run) << run.error().message;
          EXPECT_EQ(run->iteration_ps,
                    expected_ps(runs_of(layers, stages), stages, micro_batches, by_io));
          const Moved now = moved_in(*trace);
          EXPECT_EQ(now, moved.value_or(now));
          moved = now;
        }
      }
    }
  }
}

// With everything that a worker may wait for: collectives of all kinds in parts, among replicas of
// which some are slow, and blocks that are computed twice.
TEST(StreamedWindows, NeverStop) {
  Rng rng(5);
  const auto draw = [&](uint64_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  for (int32_t round = 0; round < 300; ++round) {
    const int32_t micro_batches = 1 + draw(4);
    Workload workload = workload_of(std::vector<Layer>(9, {30, 60, 100}), micro_batches);
    int32_t block = 0;
    for (std::size_t index = 0; index < 9; ++index) {
      ModelLayer& layer = workload.model.layers[index];
      layer.block = block += index > 0 && draw(3) > 0 ? 1 : 0;
      layer.is_split = index == 0 || draw(2) == 0;
      layer.forward_sum_elements = layer.is_split ? 7 : 0;
      layer.backward_sum_elements = layer.is_split ? 9 : 0;
      layer.sequence_exchange_elements = index == 1 || draw(3) == 0 ? 12 : 0;
      layer.expert_count = index == 2 || draw(3) == 0 ? 12 : 0;
      layer.expert_exchange_elements = layer.expert_count;
    }
    Strategy strategy = {.tensor = 1 + draw(2),
                         .pipeline = 1 + draw(static_cast<uint64_t>(std::min(block + 1, 4))),
                         .sequence = 1 + draw(2),
                         .expert = 1 + draw(2),
                         .micro_batches = micro_batches,
                         .tensor_sequence = draw(2) == 0,
                         .recompute = draw(2) == 0,
                         .multicast_outputs = draw(2) == 0,
                         .streams_by_io = draw(2) == 0};
    strategy.stream_bytes_per_s = strategy.streams_by_io ? 0 : kRate;
    strategy.data = strategy.expert * (1 + draw(2));
    strategy.multicast_outputs &= !strategy.tensor_sequence;
    TraceRequest request = {.workload = workload,
                            .strategy = strategy,
                            .merge_alike = draw(2) == 0,
                            .defer_weight_gradients = draw(2) == 0};
    for (int32_t rank = 0; rank < strategy.rank_count(); ++rank) {
      request.slowness.push_back(draw(4) == 0 ? 2.0 : 1.0);
    }
    for (int32_t layer = 0; layer < 9; ++layer) {
      request.exchange_parts.push_back(1 + draw(3));
    }
    SCOPED_TRACE("round " + std::to_string(round) + ", " + to_text(strategy));
    const Result<Trace> trace = build_trace(request);
    ASSERT_TRUE(trace) << trace.error().message;
    Costs costs;
    const Result<FreeIteration> run = run_without_gradients(*trace, costs, {}, false);
    ASSERT_TRUE(run) << run.error().message;
    for (const WorkerTrace& worker : trace->workers) {
      std::map<std::pair<TraceNodeKind, int32_t>, int64_t> times;
      for (const TraceNode& node : worker.nodes) {
        ++times[{node.kind, node.name}];
      }
      for (const auto& [what, count] : times) {
        if (what.first == TraceNodeKind::kLoad || what.first == TraceNodeKind::kStore) {
          EXPECT_EQ(count, what.first == TraceNodeKind::kLoad ? 2 : 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace pleach
