// Memory: what a rank holds in training.
#pragma once

#include <cstdint>

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

// Adam in mixed precision: two moments and a weight of 4 bytes for each parameter.
inline constexpr int32_t kAdamBytes = 12;

// Of a rank of the fullest stage, without buckets: states under the strategy's ZeRO stage, and the
// activations of the micro-batches that its schedule keeps at a time (with recomputation only what
// enters each block, and one block's). When weights stream, what two layers in a row need.
//   returns  INT64_MAX bytes of states where build_trace refuses
//   cost     O(layers + stages · micro_batches)
//   source   Rajbhandari et al., ZeRO, SC 2020, sec. 3; kept_elements
MemoryUse memory_use(const Workload& workload, const Strategy& strategy,
                     int32_t optimizer_bytes_per_parameter = kAdamBytes);

}  // namespace pleach
