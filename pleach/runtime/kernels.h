// Kernels: element-wise reductions of buffers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "pleach/base/collective_kind.h"

namespace pleach {

struct Reduction {
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

// out[i] = a[i] op b0[i] op b1[i] ..., folded from the left, for `count` elements, with the fastest
// kernels that this machine runs. At least one other; the type has the op (check_reduction).
// Pointers are aligned to the element; `out` may be one of the operands, nothing else overlaps.
// Integers wrap; min and max take the second value when it is smaller (larger), so that they never
// choose between equals; of an average this is the sum. float16 and bfloat16 are folded in float32
// and rounded to nearest even once, at the end: the fold of a fold has other bits.
//   cost  one pass over memory, in blocks that stay in cache
void reduce(Reduction reduction, std::byte* out, const std::byte* a,
            std::span<const std::byte* const> others, int64_t count);

// out[i] /= divisor, of a floating type; half types divide in float32. divisor ≥ 1.
void divide(ElementType type, std::byte* out, int64_t count, int32_t divisor);

// out[i] = in[i], of a half type, as float32: exact.
void widen(ElementType type, float* out, const std::byte* in, int64_t count);

// out[i] = in[i], rounded to nearest even to a half type.
void narrow(ElementType type, std::byte* out, const float* in, int64_t count);

// As reduce(), of one type and op.
using Fold = void (*)(std::byte* out, const std::byte* a, std::span<const std::byte* const> others,
                      int64_t count);

// As widen() and narrow(), of one type.
struct Conversions {
  void (*widen)(float* out, const std::byte* in, int64_t count) = nullptr;
  void (*narrow)(std::byte* out, const float* in, int64_t count) = nullptr;
};

// What there is for one instruction set. All give the same bits, except those within a NaN.
struct Kernels {
  std::string_view name;  // "baseline", "avx2", "avx512"
  // By type and op; null where the type has not the op.
  std::array<std::array<Fold, kAllReduceOps.size()>, kAllElementTypes.size()> folds;
  // By type; null but of half types.
  std::array<Conversions, kAllElementTypes.size()> conversions;

  Fold fold(Reduction reduction) const {
    return folds[static_cast<std::size_t>(reduction.type)][static_cast<std::size_t>(reduction.op)];
  }
  const Conversions& conversion(ElementType type) const {
    return conversions[static_cast<std::size_t>(type)];
  }
};

// Those that this machine runs, the slowest first: the baseline.
std::span<const Kernels* const> runnable_kernels();

}  // namespace pleach
