// One reduction of two values, or of two vectors of them, as kernels inline it.
#pragma once

#include <type_traits>

#include "pleach/base/collective_kind.h"

namespace pleach {

// a op b, of an average the sum. Min and max take the second when it is smaller (larger), so that
// they never choose between equals; integers wrap.
template <ReduceOp op, typename T>
[[gnu::always_inline]] inline T combine(T a, T b) {
  if constexpr (op == ReduceOp::kMin) {
    return b < a ? b : a;
  } else if constexpr (op == ReduceOp::kMax) {
    return a < b ? b : a;
  } else if constexpr (op == ReduceOp::kBitwiseAnd) {
    return static_cast<T>(a & b);
  } else if constexpr (op == ReduceOp::kBitwiseOr) {
    return static_cast<T>(a | b);
  } else if constexpr (op == ReduceOp::kBitwiseXor) {
    return static_cast<T>(a ^ b);
  } else {
    // Unsigned arithmetic wraps, signed arithmetic must not overflow.
    using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                                 std::type_identity<T>>::type;
    const auto x = static_cast<Wrapping>(a);
    const auto y = static_cast<Wrapping>(b);
    return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
  }
}

}  // namespace pleach
