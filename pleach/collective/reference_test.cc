#include "pleach/collective/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

using Ints = std::vector<int32_t>;

Ints input_of(const ReferenceRequest& request, int32_t rank, std::size_t count) {
  Ints input(count);
  fill_input(request, Rank{rank}, std::as_writable_bytes(std::span(input)));
  return input;
}

int64_t wrong(const ReferenceRequest& request, int32_t rank, const Ints& output,
              bool in_place = false) {
  return count_wrong(request, Rank{rank}, std::as_bytes(std::span(output)), in_place);
}

ReferenceRequest ints(CollectiveKind collective, int64_t count) {
  return {.collective = collective,
          .rank_count = 3,
          .root = Rank{1},
          .type = ElementType::kInt32,
          .count = count,
          .seed = 9};
}

// Every collective by hand, on 3 ranks.
Ints result_of(const ReferenceRequest& request, int32_t rank) {
  const auto count = at(request.count);
  const auto shard = [&](int32_t r) { return count * at(r) / 3; };
  Ints sum(count, 0);
  for (int32_t r = 0; r < 3; ++r) {
    const Ints input = input_of(request, r, count);
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] += input[i];
    }
  }
  Ints output;
  switch (request.collective) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return sum;
    case CollectiveKind::kReduceScatter:
      return {sum.begin() + static_cast<std::ptrdiff_t>(shard(rank)),
              sum.begin() + static_cast<std::ptrdiff_t>(shard(rank + 1))};
    case CollectiveKind::kBroadcast:
      return input_of(request, 1, count);
    case CollectiveKind::kScatter: {
      const Ints input = input_of(request, 1, count);
      return {input.begin() + static_cast<std::ptrdiff_t>(shard(rank)),
              input.begin() + static_cast<std::ptrdiff_t>(shard(rank + 1))};
    }
    case CollectiveKind::kAllGather:
    case CollectiveKind::kGather:
      for (int32_t r = 0; r < 3; ++r) {
        const Ints input = input_of(request, r, shard(r + 1) - shard(r));
        output.insert(output.end(), input.begin(), input.end());
      }
      return output;
    case CollectiveKind::kAllToAll:
      for (int32_t r = 0; r < 3; ++r) {
        const Ints input = input_of(request, r, count);
        output.insert(output.end(), input.begin() + rank * static_cast<std::ptrdiff_t>(count) / 3,
                      input.begin() + (rank + 1) * static_cast<std::ptrdiff_t>(count) / 3);
      }
      return output;
  }
  return output;
}

TEST(ReferenceTest, AcceptsTheResultAndCountsEveryWrongElement) {
  for (const CollectiveKind collective : kAllCollectives) {
    for (const int64_t count : {0, 3, 12, 200'001}) {
      for (int32_t rank = 0; rank < 3; ++rank) {
        if (is_to_root(collective) && rank != 1) {
          continue;
        }
        SCOPED_TRACE(std::string(to_text(collective)) + " of " + std::to_string(count));
        const ReferenceRequest request = ints(collective, count);
        Ints output = result_of(request, rank);
        EXPECT_EQ(wrong(request, rank, output), 0);
        if (!output.empty()) {
          output.front() += 1;
          EXPECT_EQ(wrong(request, rank, output), 1);
          output.back() ^= 1 << 30;
          EXPECT_EQ(wrong(request, rank, output), output.size() == 1 ? 1 : 2);
        }
      }
    }
  }
}

TEST(ReferenceTest, WhatReduceMustNotTouchIsChecked) {
  const ReferenceRequest request = ints(CollectiveKind::kReduce, 5);
  Ints output(5);
  fill_output(std::as_writable_bytes(std::span(output)));
  EXPECT_EQ(wrong(request, 0, output), 0);
  output[3] = 0;
  EXPECT_EQ(wrong(request, 0, output), 1);
  EXPECT_EQ(wrong(request, 0, input_of(request, 0, 5), true), 0);
  EXPECT_EQ(wrong(request, 0, result_of(request, 1), true), 5);
}

TEST(ReferenceTest, WhatGatherMustNotTouchIsChecked) {
  const ReferenceRequest request = ints(CollectiveKind::kGather, 8);
  Ints output(8);
  fill_output(std::as_writable_bytes(std::span(output)));
  EXPECT_EQ(wrong(request, 2, output), 0);
  EXPECT_EQ(wrong(request, 2, output, true), 3);  // elements 5 to 7 are its input
  std::ranges::copy(input_of(request, 2, 3), output.begin() + 5);
  EXPECT_EQ(wrong(request, 2, output, true), 0);
  EXPECT_EQ(wrong(request, 2, output), 3);
  output[0] = 0;
  output[7] += 1;
  EXPECT_EQ(wrong(request, 2, output, true), 2);
}

TEST(ReferenceTest, RanksSeedsAndPlacesDiffer) {
  const ReferenceRequest request = ints(CollectiveKind::kAllReduce, 1000);
  ReferenceRequest other_seed = request;
  other_seed.seed = 10;
  const Ints input = input_of(request, 0, 1000);
  EXPECT_EQ(input, input_of(request, 0, 1000));
  EXPECT_NE(input, input_of(request, 1, 1000));
  EXPECT_NE(input, input_of(other_seed, 0, 1000));
  EXPECT_NE(Ints(input.begin(), input.begin() + 500), Ints(input.begin() + 500, input.end()));
}

// Folds all ranks' inputs to the left and to the right, rounding every time.
template <typename T>
void expect_exact(ReferenceRequest request, const std::vector<int32_t>& rank_counts) {
  for (const ReduceOp op : kAllReduceOps) {
    request.op = op;
    if (op == ReduceOp::kAverage || !check_reduction(request.type, op)) {
      continue;
    }
    for (const int32_t ranks : rank_counts) {
      SCOPED_TRACE(std::string(to_text(request.type)) + " " + std::string(to_text(op)) + " on " +
                   std::to_string(ranks));
      request.rank_count = ranks;
      const auto combine = [&](T left, T right) {
        const auto x = widen(left), y = widen(right);
        using Wide = Arithmetic<T>;
        Wide result = op == ReduceOp::kMin ? std::min(x, y) : std::max(x, y);
        if constexpr (std::is_integral_v<T>) {
          const auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
          result = static_cast<Wide>(op == ReduceOp::kSum          ? a + b
                                     : op == ReduceOp::kProduct    ? a * b
                                     : op == ReduceOp::kBitwiseAnd ? a & b
                                     : op == ReduceOp::kBitwiseOr  ? a | b
                                     : op == ReduceOp::kBitwiseXor ? a ^ b
                                                                   : static_cast<uint64_t>(result));
        } else if (op == ReduceOp::kSum || op == ReduceOp::kProduct) {
          result = op == ReduceOp::kSum ? x + y : x * y;
        }
        return narrow<T>(result);
      };
      std::vector<T> forwards(at(request.count)), backwards = forwards, input = forwards;
      for (int32_t k = 0; k < ranks; ++k) {
        for (const bool is_last : {false, true}) {
          std::vector<T>& result = is_last ? backwards : forwards;
          fill_input(request, Rank{is_last ? ranks - 1 - k : k},
                     std::as_writable_bytes(std::span(input)));
          for (std::size_t i = 0; i < input.size(); ++i) {
            result[i] = k == 0 ? input[i] : combine(result[i], input[i]);
          }
        }
      }
      EXPECT_EQ(count_wrong(request, Rank{0}, std::as_bytes(std::span(forwards))), 0);
      EXPECT_EQ(count_wrong(request, Rank{0}, std::as_bytes(std::span(backwards))), 0);
      forwards[7] = narrow<T>(static_cast<Arithmetic<T>>(widen(forwards[7]) + Arithmetic<T>{1}));
      EXPECT_EQ(count_wrong(request, Rank{0}, std::as_bytes(std::span(forwards))), 1);
    }
  }
}

TEST(ReferenceTest, ResultsAreExactInEveryOrderAndType) {
  for (const ElementType type : kAllElementTypes) {
    with_element(type, [&](auto tag) {
      expect_exact<typename decltype(tag)::type>({.type = type, .count = 100, .seed = 4},
                                                 {2, 3, 64, 257, 4096});
    });
  }
}

TEST(ReferenceTest, AveragesOfHalfTypesAreRoundedOnce) {
  const ReferenceRequest request{
      .rank_count = 3, .type = ElementType::kBFloat16, .op = ReduceOp::kAverage, .count = 50};
  std::vector<BFloat16> average(50), input(50);
  std::vector<float> sum(50, 0);
  for (int32_t rank = 0; rank < 3; ++rank) {
    fill_input(request, Rank{rank}, std::as_writable_bytes(std::span(input)));
    std::transform(input.begin(), input.end(), sum.begin(), sum.begin(),
                   [](BFloat16 value, float all) { return widen(value) + all; });
  }
  std::transform(sum.begin(), sum.end(), average.begin(),
                 [](float all) { return narrow<BFloat16>(all / 3); });
  EXPECT_EQ(count_wrong(request, Rank{0}, std::as_bytes(std::span(average))), 0);
}

}  // namespace
}  // namespace pleach
