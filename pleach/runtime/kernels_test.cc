#include "pleach/runtime/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

template <typename T>
const std::byte* bytes(const std::vector<T>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

template <typename T>
std::byte* bytes(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <typename T>
T one_by_one(ReduceOp op, T a, T b) {
  using Wide = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    case ReduceOp::kProduct:
      return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return a < b ? b : a;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(op == ReduceOp::kBitwiseAnd  ? a & b
                          : op == ReduceOp::kBitwiseOr ? a | b
                                                       : a ^ b);
  }
  return a;
}

// Everything that floating arithmetic treats in a way of its own, and numbers of all magnitudes.
template <typename T>
Arithmetic<T> any_value(Rng& rng) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(rng.below(UINT64_MAX));
  } else {
    using Limits = std::numeric_limits<Arithmetic<T>>;
    const auto scale = [&](int least, int most) {
      return std::ldexp(static_cast<Arithmetic<T>>(rng.unit() - 0.5),
                        least + static_cast<int>(rng.below(at(most - least))));
    };
    switch (rng.below(8)) {
      case 0: {
        const std::vector<Arithmetic<T>> special = {Limits::quiet_NaN(),
                                                    Limits::infinity(),
                                                    -Limits::infinity(),
                                                    0,
                                                    -0.0F,
                                                    1,
                                                    -1,
                                                    Limits::max(),
                                                    Limits::lowest(),
                                                    Limits::min(),
                                                    Limits::denorm_min()};
        return special[rng.below(special.size())];
      }
      case 1:  // subnormal, in half types
        return scale(std::is_same_v<T, Float16> ? -25 : -140, -13);
      case 2:
        return scale(10, 18);  // the largest of float16
      default:
        return scale(-6, 6);
    }
  }
}

template <typename T>
std::vector<T> any_values(std::size_t count, Rng& rng) {
  std::vector<T> values(count);
  for (T& value : values) {
    value = narrow<T>(any_value<T>(rng));
  }
  return values;
}

// The bits, but one NaN is as good as another.
template <typename T>
bool is_same(T left, T right) {
  const bool is_nan = widen(left) != widen(left);
  return is_nan ? widen(right) != widen(right) : std::memcmp(&left, &right, sizeof(T)) == 0;
}

template <typename T>
struct FoldCase {
  Reduction reduction;
  const std::vector<std::vector<T>>& operands;  // more elements than it takes
  std::size_t count;
  std::size_t begin;  // first element: vectors need not be aligned
  std::size_t others;
  std::optional<std::size_t> place = {};  // the operand whose memory the result takes
};

// The operands' elements that it folds, and the fold of them, one after the other.
template <typename T>
std::vector<T> serial_fold(const FoldCase<T>& row) {
  std::vector<T> expected;
  for (std::size_t i = row.begin; i < row.begin + row.count; ++i) {
    Arithmetic<T> value = widen(row.operands[0][i]);
    for (std::size_t k = 1; k <= row.others; ++k) {
      value = one_by_one(row.reduction.op, value, widen(row.operands[k][i]));
    }
    expected.push_back(narrow<T>(value));
  }
  return expected;
}

template <typename T>
void expect_serial_bits(const Kernels& kernels, const FoldCase<T>& row) {
  std::vector<T> out =
      row.place ? row.operands[*row.place] : std::vector<T>(row.operands[0].size());
  const std::vector<T> before = out;
  std::vector<const std::byte*> operands;
  for (std::size_t k = 0; k <= row.others; ++k) {
    const std::vector<T>& operand = k == row.place ? out : row.operands[k];
    operands.push_back(bytes(operand) + row.begin * sizeof(T));
  }
  kernels.fold(row.reduction)(bytes(out) + row.begin * sizeof(T), operands.front(),
                              std::span(operands).subspan(1), static_cast<int64_t>(row.count));
  const std::vector<T> expected = serial_fold(row);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool is_inside = i >= row.begin && i < row.begin + row.count;
    ASSERT_TRUE(is_same(out[i], is_inside ? expected[i - row.begin] : before[i])) << i;
  }
}

template <typename T>
void expect_serial_bits(const Kernels& kernels, Reduction reduction) {
  Rng rng(5);
  std::vector<std::vector<T>> operands;
  for (int k = 0; k < 21; ++k) {
    operands.push_back(any_values<T>(9000, rng));
  }
  for (const std::size_t count : {0u, 1u, 3u, 7u, 8u, 15u, 31u, 64u, 65u, 127u, 256u, 1025u}) {
    for (const std::size_t others : {1u, 2u, 3u, 20u}) {
      for (const std::size_t begin : {0u, 1u, 5u}) {
        SCOPED_TRACE(std::to_string(count) + " x " + std::to_string(others) + " from " +
                     std::to_string(begin));
        FoldCase<T> row = {reduction, operands, count, begin, others};
        if (begin > 0) {
          row.place = begin == 1 ? 0 : others;
        }
        expect_serial_bits<T>(kernels, row);
      }
    }
  }
  for (const std::size_t place : {0u, 1u, 2u, 3u, 4u}) {  // several blocks; 4: apart
    FoldCase<T> row = {reduction, operands, 8997, 1, 3};
    if (place < 4) {
      row.place = place;
    }
    expect_serial_bits<T>(kernels, row);
  }
}

TEST(KernelsTest, EveryInstructionSetGivesTheBitsOfASerialFold) {
  ASSERT_EQ(runnable_kernels().front()->name, "baseline");
  for (const Kernels* const kernels : runnable_kernels()) {
    for (const ElementType type : kAllElementTypes) {
      for (const ReduceOp op : kAllReduceOps) {
        SCOPED_TRACE(std::string(kernels->name) + " " + std::string(to_text(type)) + " " +
                     std::string(to_text(op)));
        const bool has_it = check_reduction(type, op).has_value();
        ASSERT_EQ(kernels->fold({type, op}) != nullptr, has_it);
        if (has_it) {
          with_element(type, [&](auto tag) {
            expect_serial_bits<typename decltype(tag)::type>(*kernels, {type, op});
          });
        }
      }
    }
  }
}

TEST(KernelsTest, TheFastestIsTaken) {
  const std::vector<float> a = {1, 2, 3}, b = {4, 5, 6};
  std::vector<float> out(3);
  const std::byte* const other = bytes(b);
  reduce({ElementType::kFloat32, ReduceOp::kSum}, bytes(out), bytes(a), std::span(&other, 1), 3);
  EXPECT_EQ(out, (std::vector<float>{5, 7, 9}));
}

TEST(KernelsTest, IntegersWrap) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  const std::vector<int32_t> a = {kMost, kLeast, 65536}, b = {1, -1, 65536};
  std::vector<int32_t> out(3);
  const std::byte* const other = bytes(b);
  reduce({ElementType::kInt32, ReduceOp::kSum}, bytes(out), bytes(a), std::span(&other, 1), 3);
  EXPECT_EQ(out, (std::vector<int32_t>{kLeast, kMost, 131072}));
  reduce({ElementType::kInt32, ReduceOp::kProduct}, bytes(out), bytes(a), std::span(&other, 1), 3);
  EXPECT_EQ(out, (std::vector<int32_t>{kMost, kLeast, 0}));
}

TEST(KernelsTest, HalfTypesRoundOnceAStep) {
  // 2048 + 1 is 2048 in float16, by itself; the sum of all three is not.
  const std::vector<Float16> a = {narrow<Float16>(2048)}, b = {narrow<Float16>(1)};
  const std::vector<const std::byte*> others = {bytes(b), bytes(b)};
  std::vector<Float16> out(1);
  reduce({ElementType::kFloat16, ReduceOp::kSum}, bytes(out), bytes(a), others, 1);
  EXPECT_EQ(widen(out[0]), 2050);
  reduce({ElementType::kFloat16, ReduceOp::kSum}, bytes(out), bytes(a), std::span(others).first(1),
         1);
  EXPECT_EQ(widen(out[0]), 2048);
}

// Every half, and floats of every size, in pieces that no vector divides.
template <typename T>
void expect_conversions(const Kernels& kernels, ElementType type) {
  ASSERT_NE(kernels.conversion(type).widen, nullptr);
  std::vector<T> halves(65'536 + 5);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    halves[i].bits = static_cast<uint16_t>(i);
  }
  std::vector<float> floats(halves.size());
  kernels.conversion(type).widen(floats.data(), bytes(halves), std::ssize(halves));
  Rng rng(9);
  std::vector<float> any(halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    ASSERT_TRUE(is_same(floats[i], widen(halves[i]))) << i;
    any[i] = std::bit_cast<float>(static_cast<uint32_t>(rng.next()));
  }
  kernels.conversion(type).narrow(bytes(halves), any.data(), std::ssize(halves) - 2);
  for (std::size_t i = 0; i + 2 < halves.size(); ++i) {
    ASSERT_TRUE(is_same(halves[i], narrow<T>(any[i]))) << any[i];
  }
  EXPECT_EQ(halves.back().bits, 4);
}

TEST(KernelsTest, HalvesWidenAndRoundTheSameWithEveryInstructionSet) {
  for (const Kernels* const kernels : runnable_kernels()) {
    SCOPED_TRACE(kernels->name);
    expect_conversions<Float16>(*kernels, ElementType::kFloat16);
    expect_conversions<BFloat16>(*kernels, ElementType::kBFloat16);
    EXPECT_EQ(kernels->conversion(ElementType::kFloat64).widen, nullptr);
  }
}

TEST(KernelsTest, AveragesDivide) {
  std::vector<float> floats = {7, -7, 5};
  divide(ElementType::kFloat32, bytes(floats), 2, 2);
  EXPECT_EQ(floats, (std::vector<float>{3.5F, -3.5F, 5}));
  std::vector<double> doubles = {1};
  divide(ElementType::kFloat64, bytes(doubles), 1, 3);
  EXPECT_EQ(doubles, (std::vector<double>{1.0 / 3}));
  std::vector<BFloat16> halves(100, narrow<BFloat16>(1));
  divide(ElementType::kBFloat16, bytes(halves), 99, 3);
  EXPECT_EQ(widen(halves[0]), 0.333984375F);
  EXPECT_EQ(widen(halves[98]), 0.333984375F);
  EXPECT_EQ(widen(halves[99]), 1);
}

TEST(KernelsTest, MinAndMaxKeepTheFirstOfEquals) {
  const std::vector<float> a = {0.0F, -0.0F}, b = {-0.0F, 0.0F};
  const std::byte* const other = bytes(b);
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<float> out(2, 1);
    reduce({ElementType::kFloat32, op}, bytes(out), bytes(a), std::span(&other, 1), 2);
    EXPECT_FALSE(std::signbit(out[0]));
    EXPECT_TRUE(std::signbit(out[1]));
  }
}

}  // namespace
}  // namespace pleach
