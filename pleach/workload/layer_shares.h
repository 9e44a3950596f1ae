// LayerShares: what each rank does and holds of every layer under a strategy.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/workload/strategy.h"

namespace pleach {

// One rank's part of a layer, in one micro-batch.
struct LayerShare {
  LayerTimes times;
  std::vector<int64_t> tensor_bytes;    // whose gradients it reports
  int64_t update_ps = 0;                // of those tensors, by the optimizer, once an iteration
  int64_t parameter_bytes = 0;          // that it computes with: those, or the first layer's
  bool is_expert = false;               // the tensors are reduced among replicas of the experts
  bool is_shared = false;               // a copy of tied tensors is in another stage
  int64_t forward_sum_bytes = 0;        // whole buffers of collectives, as are the next
  int64_t backward_sum_bytes = 0;       //
  int64_t sequence_exchange_bytes = 0;  // of forward's two all_to_alls together
  int64_t expert_exchange_bytes = 0;    // of each all_to_all
  int64_t output_bytes = 0;             // that the next stage gets
  int64_t kept_bytes = 0;               // activations, from forward to backward
};

// Ranks that hold the layer's tensors, and may share what belongs to them.
int32_t replicas_of(const LayerShare& layer, const Strategy& strategy);

// Layers are computed in runs: run k by stage k mod stage_count. A stage has one run; where weights
// stream, one of each window, which is `stage_count` runs in a row.
struct LayerShares {
  std::vector<LayerShare> layers;
  std::vector<int32_t> first_layer;  // of each run; then the layer count
  int32_t stage_count = 1;
  int64_t input_bytes = 0;  // of a rank's micro-batch, into the first layer

  int32_t run_count() const { return count_of(first_layer) - 1; }
  std::vector<int32_t> layers_of(int32_t stage) const;  // ascending
};

// Splits the model and cuts its stages between blocks so that the slowest computes least. Where
// weights stream a run is a block; where there is one stage and nothing is recomputed, a layer, and
// before it what has less than a 16th of the largest one's parameters.
//   errors  as build_trace
//   cost    O(layers)
Result<LayerShares> share_layers(const Workload& workload, const Strategy& strategy);

}  // namespace pleach
