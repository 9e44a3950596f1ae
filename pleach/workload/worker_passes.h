// The passes of one worker in one iteration, in the order of its stage, as trace nodes.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pleach/workload/layer_shares.h"
#include "pleach/workload/strategy.h"
#include "pleach/workload/trace.h"

namespace pleach {

// Whom the network's I/O nodes serve: families of loads and of stores.
struct IoReferences {
  int32_t input_family = -1;  // of the first stage: ranks with the same samples
  int32_t load_family = -1;   // ranks with the same weights
  int32_t store_family = -1;
  int32_t expert_load_family = -1;  // with the same experts
  int32_t expert_store_family = -1;
};

// What nodes refer to; −1 where the trace has no such family or group.
struct PassReferences {
  int32_t tensor_family = -1;
  int32_t sequence_family = -1;
  int32_t expert_family = -1;
  int32_t embedding_family = -1;
  int32_t gradient_group = -1;  // of the stage
  int32_t expert_gradient_group = -1;
  int32_t tied_gradient_group = -1;  // of a copy of the first layer's tensors
  // By source and target stage: the family of outputs that are broadcast; others are messages.
  std::map<std::pair<int32_t, int32_t>, int32_t> output_families = {};
  IoReferences io = {};  // where weights stream by I/O nodes
};

// Which worker of the pipeline it is. Stages of one pipeline are workers in a row.
struct PassPlace {
  int32_t worker = 0;
  int32_t stage = 0;
  double slowness = 1;
  PassReferences references;
};

// Trace::names of a model: the names that append_passes's nodes have.
std::vector<std::string> pass_names(const Model& model);

// Passes of a stage, in order: forwards and backwards of micro-batches.
struct Pass {
  bool is_forward = true;
  int32_t micro_batch = 0;
};
//   source  Huang et al., GPipe, NeurIPS 2019, sec. 2.3; Narayanan et al., SC 2021, sec. 2.2.1
std::vector<Pass> stage_passes(const Strategy& strategy, int32_t stage);

// Appends the nodes of the whole iteration to `trace`.
//   cost  O(layers of the stage · micro_batches)
void append_passes(const LayerShares& shares, const TraceRequest& request, const PassPlace& place,
                   WorkerTrace& trace);

}  // namespace pleach
