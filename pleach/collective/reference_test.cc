#include "pleach/collective/reference.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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
    case CollectiveKind::kAllGather:
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
        if (collective == CollectiveKind::kReduce && rank != 1) {
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

TEST(ReferenceTest, FloatResultsAreExactInEveryOrder) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct}) {
    ReferenceRequest request{.rank_count = 64, .op = op, .count = 300, .seed = 4};
    std::vector<float> forwards, backwards;
    for (int32_t k = 0; k < 64; ++k) {
      std::vector<float> first(300), last(300);
      fill_input(request, Rank{k}, std::as_writable_bytes(std::span(first)));
      fill_input(request, Rank{63 - k}, std::as_writable_bytes(std::span(last)));
      if (k == 0) {
        forwards = first;
        backwards = last;
        continue;
      }
      for (std::size_t i = 0; i < first.size(); ++i) {
        forwards[i] = op == ReduceOp::kSum ? forwards[i] + first[i] : forwards[i] * first[i];
        backwards[i] = op == ReduceOp::kSum ? backwards[i] + last[i] : backwards[i] * last[i];
      }
    }
    EXPECT_EQ(forwards, backwards);
    EXPECT_EQ(count_wrong(request, Rank{0}, std::as_bytes(std::span(forwards))), 0);
  }
}

}  // namespace
}  // namespace pleach
