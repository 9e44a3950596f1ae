#include "pleach/base/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pleach {
namespace {

// What the formats say, by the arithmetic of double: fields of sign, exponent and fraction.
struct Format {
  int fraction_bits;
  int least_exponent;  // of normal numbers
  int bias;
};
template <typename T>
constexpr Format kFormat = std::is_same_v<T, Float16> ? Format{10, -14, 15} : Format{7, -126, 127};

template <typename T>
double value_of(uint32_t bits) {
  const auto [fraction_bits, least, bias] = kFormat<T>;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = static_cast<int>((bits & 0x7fffU) >> fraction_bits);
  const uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  if (exponent == 2 * bias + 1) {
    return fraction == 0 ? sign * INFINITY : NAN;
  }
  const uint32_t whole = exponent == 0 ? fraction : fraction + (1U << fraction_bits);
  return sign * std::ldexp(whole, std::max(exponent - bias, least) - fraction_bits);
}

// The nearest number of the format, ties to even; infinite where it is beyond the largest.
template <typename T>
double rounded(double value) {
  const auto [fraction_bits, least, bias] = kFormat<T>;
  if (value == 0 || !std::isfinite(value)) {
    return value;
  }
  const int exponent = std::max(std::ilogb(value), least);
  const double unit = std::ldexp(1, exponent - fraction_bits);
  const double nearest = std::nearbyint(value / unit) * unit;
  return std::abs(nearest) >= std::ldexp(1, bias + 1) ? std::copysign(INFINITY, value) : nearest;
}

template <typename T>
void expect_rounded(float value) {
  const double expected = rounded<T>(value);
  const float got = widen(narrow<T>(value));
  ASSERT_EQ(got, expected) << std::hexfloat << value;
  ASSERT_EQ(std::signbit(got), std::signbit(value));
}

template <typename T>
class HalfTest : public testing::Test {};
using Halves = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(HalfTest, Halves);

TYPED_TEST(HalfTest, EveryNumberIsWidenedExactlyAndComesBack) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const TypeParam half = {static_cast<uint16_t>(bits)};
    const double value = value_of<TypeParam>(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(widen(half)));
      ASSERT_TRUE(std::isnan(widen(narrow<TypeParam>(widen(half)))));
      continue;
    }
    ASSERT_EQ(widen(half), value) << bits;
    ASSERT_EQ(std::signbit(widen(half)), std::signbit(value)) << bits;
    ASSERT_EQ(narrow<TypeParam>(widen(half)).bits, bits);
  }
}

TYPED_TEST(HalfTest, RoundsToNearestEven) {
  // Between two neighbours: the middle, and the floats beside it.
  for (uint32_t bits = 0; bits < 0x7fffU; ++bits) {
    const double low = value_of<TypeParam>(bits), high = value_of<TypeParam>(bits + 1);
    if (!std::isfinite(low) || std::isnan(high)) {
      continue;
    }
    const double step = low - value_of<TypeParam>(bits == 0 ? 0 : bits - 1);
    const auto middle = static_cast<float>(std::isinf(high) ? low + step / 2 : (low + high) / 2);
    for (const float value : {std::nextafter(middle, 0.0F), middle,
                              std::nextafter(middle, std::numeric_limits<float>::infinity())}) {
      expect_rounded<TypeParam>(value);
      expect_rounded<TypeParam>(-value);
    }
  }
  for (uint64_t bits = 0; bits < 0x100000000U; bits += 9973) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) {
      expect_rounded<TypeParam>(value);
    }
  }
}

TYPED_TEST(HalfTest, NansStayNans) {
  for (uint32_t bits = 0x7f800001U; bits < 0x80000000U; bits += 997) {
    EXPECT_TRUE(std::isnan(widen(narrow<TypeParam>(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(widen(narrow<TypeParam>(-std::bit_cast<float>(bits)))));
  }
}

TEST(ElementTest, EveryTypeHasItsElement) {
  for (const ElementType type : kAllElementTypes) {
    with_element(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      EXPECT_EQ(element_bytes(type), static_cast<int64_t>(sizeof(T)));
      EXPECT_EQ(is_half(type), kIsHalf<T>);
      EXPECT_EQ(is_floating(type), kIsHalf<T> || std::is_floating_point_v<T>);
    });
  }
}

}  // namespace
}  // namespace pleach
