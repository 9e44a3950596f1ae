#include "pleach/runtime/kernels.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace pleach {
namespace {

// Elements that are folded over all operands before the next ones: two blocks fit a level-1 cache.
constexpr int64_t kBlock = 2048;

template <ReduceOp op, typename T>
T combine(T a, T b) {
  if constexpr (op == ReduceOp::kMin) {
    return b < a ? b : a;
  } else if constexpr (op == ReduceOp::kMax) {
    return a < b ? b : a;
  } else {
    // Unsigned arithmetic wraps, signed arithmetic must not overflow.
    using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                                 std::type_identity<T>>::type;
    const auto x = static_cast<Wrapping>(a);
    const auto y = static_cast<Wrapping>(b);
    return static_cast<T>(op == ReduceOp::kSum ? x + y : x * y);
  }
}

template <ReduceOp op, typename T>
void fold(std::byte* out, const std::byte* a, std::span<const std::byte* const> others,
          int64_t count) {
  auto* const result = reinterpret_cast<T*>(out);
  const auto* left = reinterpret_cast<const T*>(a);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    const T* source = left;
    for (const std::byte* const other : others) {
      const auto* const right = reinterpret_cast<const T*>(other);
      for (int64_t i = begin; i < end; ++i) {
        result[i] = combine<op, T>(source[i], right[i]);
      }
      source = result;
    }
  }
}

template <ReduceOp op>
void fold_typed(ElementType type, std::byte* out, const std::byte* a,
                std::span<const std::byte* const> others, int64_t count) {
  switch (type) {
    case ElementType::kFloat32:
      return fold<op, float>(out, a, others, count);
    case ElementType::kFloat64:
      return fold<op, double>(out, a, others, count);
    case ElementType::kInt32:
      return fold<op, int32_t>(out, a, others, count);
  }
}

template <typename T>
void divide_typed(std::byte* out, int64_t count, int32_t divisor) {
  auto* const values = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    values[i] /= static_cast<T>(divisor);
  }
}

}  // namespace

void reduce(Reduction reduction, std::byte* out, const std::byte* a,
            std::span<const std::byte* const> others, int64_t count) {
  switch (reduction.op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return fold_typed<ReduceOp::kSum>(reduction.type, out, a, others, count);
    case ReduceOp::kProduct:
      return fold_typed<ReduceOp::kProduct>(reduction.type, out, a, others, count);
    case ReduceOp::kMin:
      return fold_typed<ReduceOp::kMin>(reduction.type, out, a, others, count);
    case ReduceOp::kMax:
      return fold_typed<ReduceOp::kMax>(reduction.type, out, a, others, count);
  }
}

void divide(ElementType type, std::byte* out, int64_t count, int32_t divisor) {
  switch (type) {
    case ElementType::kFloat32:
      return divide_typed<float>(out, count, divisor);
    case ElementType::kFloat64:
      return divide_typed<double>(out, count, divisor);
    case ElementType::kInt32:
      return divide_typed<int32_t>(out, count, divisor);
  }
}

}  // namespace pleach
