// ExchangeParts: into how many parts a mixture-of-experts layer is cut so that they overlap.
#pragma once

#include <cstdint>

#include "pleach/policy/profile.h"

namespace pleach {

// Time of a layer's forward in `parts` parts: an all_to_all there, the computation, an all_to_all
// back, where the channel carries first all parts there, then all parts back. With a the time of an
// all_to_all of a k-th of the bytes and c a k-th of the computation:
//   T(k) = max(2·k·a, (k+1)·a + c, 2·a + k·c)
// The channel binds, or the first part's computation, or all computation does. At most
// kLongestPs + 1.
//   parts  ≥ 1; costs.has(kAllToAll) unless the layer exchanges nothing
//   source  the pipeline of Jiang et al., Lancet, MLSys 2024; the closed form is our own
int64_t pipelined_forward_ps(const PolicyLayer& layer, const CostModel& costs, int32_t parts);

// The least parts ≤ `most_parts` of the least time. 1 where the layer exchanges nothing.
int32_t best_exchange_parts(const PolicyLayer& layer, const CostModel& costs, int32_t most_parts);

}  // namespace pleach
