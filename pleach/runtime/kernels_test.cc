#include "pleach/runtime/kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

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
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return static_cast<T>(a + b);
    case ReduceOp::kProduct:
      return static_cast<T>(a * b);
    case ReduceOp::kMin:
      return b < a ? b : a;
    case ReduceOp::kMax:
      return a < b ? b : a;
  }
  return a;
}

template <typename T>
void expect_left_folds(ElementType type) {
  Rng rng(5);
  for (const ReduceOp op :
       {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    for (const std::size_t count : {0u, 1u, 3u, 2047u, 2048u, 2049u, 5000u}) {
      for (const std::size_t others : {1u, 2u, 5u}) {
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(std::string(to_text(op)) + " of " + std::to_string(count) + " x " +
                       std::to_string(others));
          const auto random = [&rng] { return static_cast<T>(rng.unit() * 20 - 10); };
          std::vector<T> a(count), expected(count);
          std::vector<std::vector<T>> operands(others, std::vector<T>(count));
          for (std::size_t i = 0; i < count; ++i) {
            expected[i] = a[i] = random();
            for (std::vector<T>& operand : operands) {
              operand[i] = random();
              expected[i] = one_by_one(op, expected[i], operand[i]);
            }
          }
          std::vector<const std::byte*> pointers;
          for (const std::vector<T>& operand : operands) {
            pointers.push_back(bytes(operand));
          }
          std::vector<T> separate(count, T{77});
          std::vector<T>& out = in_place ? a : separate;
          reduce({type, op}, bytes(out), bytes(std::as_const(a)), pointers,
                 static_cast<int64_t>(count));
          EXPECT_EQ(out, expected);
        }
      }
    }
  }
}

TEST(KernelsTest, FoldFromTheLeftInEveryTypeOpAndSize) {
  expect_left_folds<float>(ElementType::kFloat32);
  expect_left_folds<double>(ElementType::kFloat64);
  expect_left_folds<int32_t>(ElementType::kInt32);
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

TEST(KernelsTest, AveragesDivideTowardsZero) {
  std::vector<int32_t> integers = {7, -7, 6, 0};
  divide(ElementType::kInt32, bytes(integers), 4, 3);
  EXPECT_EQ(integers, (std::vector<int32_t>{2, -2, 2, 0}));
  std::vector<float> floats = {7, -7, 5};
  divide(ElementType::kFloat32, bytes(floats), 2, 2);
  EXPECT_EQ(floats, (std::vector<float>{3.5F, -3.5F, 5}));
  std::vector<double> doubles = {1};
  divide(ElementType::kFloat64, bytes(doubles), 1, 3);
  EXPECT_EQ(doubles, (std::vector<double>{1.0 / 3}));
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
