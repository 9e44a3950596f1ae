#include "pleach/workload/memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pleach/base/index.h"
#include "pleach/workload/layer_shares.h"
#include "pleach/workload/worker_passes.h"

namespace pleach {
namespace {

constexpr double kMostBytes = 0x1p60;
constexpr double kAdamBytes = 12;  // of a parameter

int64_t saturated(double bytes) {
  return bytes >= kMostBytes ? INT64_MAX : static_cast<int64_t>(std::ceil(bytes));
}

class StageMemory {
 public:
  StageMemory(const Model& model, const Strategy& strategy, const LayerShares& shares,
              int32_t stage)
      : model_(model),
        strategy_(strategy),
        shares_(shares),
        stage_(stage),
        layers_(shares.layers_of(stage)) {}

  double states() const {
    const double optimizer_bytes = strategy_.optimizer ? kAdamBytes : 0;
    double held = 0;
    for (const int32_t index : layers_) {
      const LayerShare& layer = shares_.layers[at(index)];
      const auto bytes = static_cast<double>(
          std::reduce(layer.tensor_bytes.begin(), layer.tensor_bytes.end(), int64_t{0}));
      const double ranks = replicas_of(layer, strategy_);
      held += bytes / (strategy_.zero >= 3 ? ranks : 1);
      held += bytes / (strategy_.zero >= 2 ? ranks : 1);
      held += bytes / model_.element_bytes * optimizer_bytes / (strategy_.zero >= 1 ? ranks : 1);
    }
    return held;
  }

  // While a run computes, the next one's weights come in. In backward its gradients gather, and
  // those of the run before leave.
  double streamed_states() const {
    std::vector<double> runs;  // parameters of those that have any, forward and then backward
    for (int32_t run = stage_; run < shares_.run_count(); run += shares_.stage_count) {
      double bytes = 0;
      for (int32_t layer = shares_.first_layer[at(run)]; layer < shares_.first_layer[at(run) + 1];
           ++layer) {
        bytes += static_cast<double>(shares_.layers[at(layer)].parameter_bytes);
      }
      if (bytes > 0) {
        runs.push_back(bytes);
      }
    }
    const std::size_t forwards = runs.size();
    for (std::size_t run = forwards; run-- > 0;) {
      runs.push_back(runs[run]);
    }
    double most = 0;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      double held = runs[run] + (run + 1 < runs.size() ? runs[run + 1] : 0);
      held += run >= forwards ? runs[run] : 0;
      held += run > forwards ? runs[run - 1] : 0;
      most = std::max(most, held);
    }
    return most + inputs();
  }

  double activations() const {
    double kept = 0;     // by one micro-batch
    double entered = 0;  // blocks, by one micro-batch
    double block = 0;
    double largest_block = 0;
    for (const int32_t index : layers_) {
      if (index == layers_.front() ||
          model_.layers[at(index)].block != model_.layers[at(index - 1)].block) {
        entered += index == 0 ? 0.0 : entering_bytes(index);
        block = 0;
      }
      const auto own = static_cast<double>(shares_.layers[at(index)].kept_bytes);
      kept += own;
      block += own;
      largest_block = std::max(largest_block, block);
    }
    return strategy_.recompute ? most_in_flight() * entered + largest_block
                               : most_in_flight() * kept;
  }

 private:
  // Of all micro-batches, where they are loaded.
  double inputs() const {
    return strategy_.streams_by_io && stage_ == 0
               ? static_cast<double>(shares_.input_bytes) * strategy_.micro_batches
               : 0;
  }

  // What the layer before leaves: no more than it keeps itself, of which its output is part.
  double entering_bytes(int32_t index) const {
    const LayerShare& before = shares_.layers[at(index - 1)];
    return static_cast<double>(std::min(before.output_bytes, before.kept_bytes));
  }

  // Micro-batches whose forward is done and whose backward is not, at most. All of them pass a
  // window of streamed weights before the next.
  int32_t most_in_flight() const {
    if (strategy_.streams()) {
      return strategy_.micro_batches;
    }
    int32_t most = 0, now = 0;
    for (const Pass& pass : stage_passes(strategy_, stage_)) {
      now += pass.is_forward ? 1 : -1;
      most = std::max(most, now);
    }
    return most;
  }

  const Model& model_;
  const Strategy& strategy_;
  const LayerShares& shares_;
  const int32_t stage_;
  const std::vector<int32_t> layers_;
};

}  // namespace

int64_t MemoryUse::total_bytes() const {
  return saturated(static_cast<double>(state_bytes) + static_cast<double>(activation_bytes) +
                   static_cast<double>(bucket_bytes));
}

std::vector<MemoryUse> memory_by_stage(const Workload& workload, const Strategy& strategy) {
  const Result<LayerShares> shares = share_layers(workload, strategy);
  if (!shares) {
    return {{.state_bytes = INT64_MAX}};
  }
  std::vector<MemoryUse> stages;
  stages.reserve(at(shares->stage_count));
  for (int32_t stage = 0; stage < shares->stage_count; ++stage) {
    const StageMemory memory(workload.model, strategy, *shares, stage);
    const double states = strategy.streams() ? memory.streamed_states() : memory.states();
    stages.push_back(
        {.state_bytes = saturated(states), .activation_bytes = saturated(memory.activations())});
  }
  return stages;
}

MemoryUse memory_use(const Workload& workload, const Strategy& strategy) {
  const std::vector<MemoryUse> stages = memory_by_stage(workload, strategy);
  return *std::ranges::max_element(stages, {}, &MemoryUse::total_bytes);
}

}  // namespace pleach
