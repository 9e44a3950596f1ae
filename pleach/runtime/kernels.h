// Kernels: element-wise reductions of buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pleach/base/collective_kind.h"

namespace pleach {

struct Reduction {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// out[i] = a[i] op b0[i] op b1[i] ..., folded from the left, for `count` elements. Pointers are
// aligned to the element; `out` may be `a`, nothing else overlaps. int32 wraps; min and max take
// the second value when it is smaller (larger), so that they never choose between equals; of an
// average this is the sum.
//   cost  one pass over memory, in blocks that stay in cache
void reduce(Reduction reduction, std::byte* out, const std::byte* a,
            std::span<const std::byte* const> others, int64_t count);

// out[i] /= divisor, of integers towards zero. divisor ≥ 1.
void divide(ElementType type, std::byte* out, int64_t count, int32_t divisor);

}  // namespace pleach
