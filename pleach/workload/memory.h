// Memory: what a rank holds in training.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/workload/strategy.h"

namespace pleach {

// Bytes of one rank; INT64_MAX: more than there are numbers for.
struct MemoryUse {
  int64_t state_bytes = 0;       // parameters, gradients and what the optimizer keeps
  int64_t activation_bytes = 0;  // kept for backward
  int64_t bucket_bytes = 0;      // gradients and parameters on their way, as the policy fuses them
  int64_t total_bytes() const;
  bool operator==(const MemoryUse&) const = default;
};

// Of a rank of each stage, without buckets: states under the strategy's ZeRO stage, with Adam's two
// moments and weight of 4 bytes where the strategy has an optimizer; and the activations of the
// micro-batches that its schedule keeps at a time (with recomputation only what enters each block,
// and one block's). When weights stream, states are the weights and gradients of two windows
// (docs/training.md), by I/O nodes the inputs too, and all micro-batches are kept.
//   returns  one stage of INT64_MAX bytes of states where build_trace refuses
//   cost     O(layers + stages · micro_batches)
//   source   Rajbhandari et al., ZeRO, SC 2020, sec. 3; kept_elements
std::vector<MemoryUse> memory_by_stage(const Workload& workload, const Strategy& strategy);
// The fullest of them.
MemoryUse memory_use(const Workload& workload, const Strategy& strategy);

}  // namespace pleach
