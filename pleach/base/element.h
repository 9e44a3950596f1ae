// Elements: the C++ types that buffers hold, and the half types' arithmetic.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "pleach/base/collective_kind.h"

namespace pleach {

// IEEE 754 binary16, and the upper half of a binary32. Storage only: arithmetic is float's.
struct Float16 {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;
// What elements of type T are computed in.
template <typename T>
using Arithmetic = std::conditional_t<kIsHalf<T>, float, T>;

// One of two, by whether `value` is below `limit`; both are below 2^31. By a mask: of what the
// compiler takes for a branch it makes no vectors.
constexpr uint32_t select_below(uint32_t value, uint32_t limit, uint32_t yes, uint32_t no) {
  const auto mask = static_cast<uint32_t>(static_cast<int32_t>(value - limit) >> 31);
  return (yes & mask) | (no & ~mask);
}

// Exact.
template <typename T>
constexpr Arithmetic<T> widen(T value) {
  if constexpr (std::is_same_v<T, Float16>) {
    const uint32_t magnitude = (value.bits & 0x7fffU) << 13;
    const uint32_t sign = (value.bits & 0x8000U) << 16;
    constexpr uint32_t kRebias = 112U << 23;  // 127 - 15
    constexpr uint32_t kLeastNormal = 113U << 23;
    // A subnormal's fraction is what the least normal lacks.
    const auto subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + kLeastNormal) -
                                                   std::bit_cast<float>(kLeastNormal));
    const uint32_t large = magnitude + select_below(magnitude, 0x7c00U << 13, kRebias, 2 * kRebias);
    return std::bit_cast<float>(select_below(magnitude, 0x400U << 13, subnormal, large) | sign);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
  } else {
    return value;
  }
}

// Rounds to nearest even. A NaN stays one.
template <typename T>
constexpr T narrow(Arithmetic<T> value) {
  constexpr uint32_t kInfinity = 255U << 23;
  if constexpr (std::is_same_v<T, Float16>) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffU;
    const uint32_t normal =
        (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;  // 127 - 15
    // The unit in the last place of 0.5 is that of float16's subnormals: the addition rounds.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
                               std::bit_cast<uint32_t>(0.5F);
    const uint32_t special =
        select_below(magnitude, kInfinity + 1, 0x7c00U, 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    const uint32_t finite = select_below(magnitude, 113U << 23, subnormal, normal);
    const uint32_t rounded = select_below(magnitude, 143U << 23, finite, special);  // 2^16
    return {static_cast<uint16_t>(rounded | ((bits >> 16) & 0x8000U))};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40U;
    return {static_cast<uint16_t>(select_below(bits & 0x7fffffffU, kInfinity + 1, rounded, quiet))};
  } else {
    return value;
  }
}

// Calls `body` with a std::type_identity of the C++ type.
template <typename Body>
constexpr decltype(auto) with_element(ElementType type, const Body& body) {
  switch (type) {
    case ElementType::kFloat64:
      return body(std::type_identity<double>());
    case ElementType::kFloat16:
      return body(std::type_identity<Float16>());
    case ElementType::kBFloat16:
      return body(std::type_identity<BFloat16>());
    case ElementType::kInt8:
      return body(std::type_identity<int8_t>());
    case ElementType::kInt32:
      return body(std::type_identity<int32_t>());
    case ElementType::kInt64:
      return body(std::type_identity<int64_t>());
    case ElementType::kUint8:
      return body(std::type_identity<uint8_t>());
    case ElementType::kFloat32:
      break;
  }
  return body(std::type_identity<float>());
}

}  // namespace pleach
