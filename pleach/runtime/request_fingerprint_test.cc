#include "pleach/runtime/request_fingerprint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace pleach {
namespace {

constexpr RequestTraits kUsual{.collective = CollectiveKind::kAllReduce,
                               .count = 1024,
                               .segment_count = 4,
                               .schedule_hash = 0x3fa2};

template <typename Change>
RequestTraits changed(const Change& change) {
  RequestTraits traits = kUsual;
  change(traits);
  return traits;
}

TEST(RequestFingerprintTest, RootsThatDifferAreSaid) {
  const auto of_root = [](int32_t root, int64_t count, uint64_t hash) {
    return request_fingerprint({.collective = CollectiveKind::kBroadcast,
                                .count = count,
                                .schedule_hash = hash,
                                .root = Rank{root}});
  };
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(difference_text(Rank{0}, of_root(0, 8, 1), Rank{1}, of_root(1, 8, 2)),
            "rank 1 runs broadcast of 8 float32 with root 1, rank 0 of 8 with root 0");
  EXPECT_EQ(difference_text(Rank{0}, of_root(0, 9, 1), Rank{1}, of_root(100, 8, 2)),
            "rank 1 runs broadcast of 8 float32 with root 63 or more, rank 0 of 9 with root 0");
  EXPECT_EQ(difference_text(Rank{0}, of_root(2, large, 1), Rank{1}, of_root(2, 8, 1)),
            "rank 1 runs broadcast of 8 float32, rank 0 of 67108863 or more");
  EXPECT_NE(of_root(70, 8, 1), of_root(71, 8, 2));
  EXPECT_NE(of_root(2, large, 1), of_root(2, 3 * large, 1));
}

TEST(RequestFingerprintTest, WhatDiffersIsSaidOfBoth) {
  struct Case {
    RequestTraits other;  // of rank 0; rank 2 has the usual
    std::string says;
  };
  const std::vector<Case> cases = {
      {changed([](RequestTraits& traits) { traits.count = 2048; }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 2048"},
      {changed([](RequestTraits& traits) { traits.count = int64_t{1} << 40; }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 4294967295 or more"},
      {changed([](RequestTraits& traits) { traits.type = ElementType::kUint8; }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 1024 uint8 sum"},
      {changed([](RequestTraits& traits) { traits.type = ElementType::kFloat16; }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 1024 float16 sum"},
      {changed([](RequestTraits& traits) {
         traits.type = ElementType::kFloat16;
         traits.is_wide = true;
       }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 1024 float16 sum (wire float32)"},
      {changed([](RequestTraits& traits) { traits.op = ReduceOp::kBitwiseXor; }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 of 1024 float32 bxor"},
      {changed([](RequestTraits& traits) { traits.segment_count = 30; }),
       "rank 2 runs all_reduce of 1024 float32 sum in 4 segments, rank 0 of 1024 in 30 segments"},
      {changed([](RequestTraits& traits) { traits.schedule_hash = 0x77b1; }),
       "rank 2 runs all_reduce of 1024 float32 sum by schedule or parts 3fa2, rank 0 of 1024 by "
       "schedule or parts 77b1"},
      {changed([](RequestTraits& traits) {
         traits.collective = CollectiveKind::kBroadcast;
         traits.count = 0;
       }),
       "rank 2 runs all_reduce of 1024 float32 sum, rank 0 broadcast of 0 float32"},
      {{}, "rank 2 runs all_reduce of 1024 float32 sum, rank 0 barrier"},
  };
  const uint64_t usual = request_fingerprint(kUsual);
  for (const Case& row : cases) {
    const uint64_t other = request_fingerprint(row.other);
    ASSERT_NE(other, usual) << row.says;
    EXPECT_EQ(difference_text(Rank{2}, usual, Rank{0}, other), row.says);
    EXPECT_EQ(difference_text(Rank{0}, other, Rank{2}, usual), row.says);
  }
  EXPECT_EQ(difference_text(Rank{0}, request_fingerprint({}), Rank{1}, 77),
            "rank 1 runs what is unknown here, rank 0 barrier");
}

TEST(RequestFingerprintTest, ReadsAsWhatWasAskedFor) {
  for (const CollectiveKind collective : kAllCollectives) {
    for (const ElementType type : kAllElementTypes) {
      for (const ReduceOp op : kAllReduceOps) {
        const int64_t most = (int64_t{1} << (has_root(collective) ? 26 : 32)) - 2;
        for (const int64_t count : {int64_t{0}, int64_t{1}, most}) {
          const std::string expected = std::string(to_text(collective)) + " of " +
                                       std::to_string(count) + " " + std::string(to_text(type)) +
                                       (reduces(collective) ? " " + std::string(to_text(op)) : "");
          EXPECT_EQ(request_text(request_fingerprint({.collective = collective,
                                                      .type = type,
                                                      .op = op,
                                                      .count = count,
                                                      .schedule_hash = 9})),
                    expected);
        }
      }
    }
  }
  for (uint64_t noise = 1; noise != 0; noise <<= 1) {
    EXPECT_NE(request_text(noise), "");
    EXPECT_NE(request_text(~noise), "");
  }
}

TEST(RequestFingerprintTest, PairsMayHaveCountsOfTheirOwn) {
  RequestTraits traits{.collective = CollectiveKind::kAllToAll, .schedule_hash = 0x3fa2};
  const uint64_t pairs = request_fingerprint(traits);
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1} << 20, int64_t{1} << 40}) {
    const uint64_t one = with_count(pairs, count);
    EXPECT_TRUE(may_be_one(pairs, one)) << count;
    EXPECT_NE(with_count(pairs, 77), one);
    EXPECT_EQ(differ_in_count(with_count(pairs, 77), one), count < int64_t{1} << 32);
    traits.count = count;
    EXPECT_EQ(request_fingerprint(traits), one);
  }
  EXPECT_FALSE(may_be_one(pairs, request_fingerprint({})));
  EXPECT_FALSE(may_be_one(with_count(pairs, 5), with_count(pairs, 6)));
  const uint64_t usual = request_fingerprint(kUsual);
  EXPECT_TRUE(may_be_one(usual, usual));
  EXPECT_FALSE(may_be_one(usual, with_count(request_fingerprint({CollectiveKind::kAllReduce}), 1)));
}

TEST(RequestFingerprintTest, NoTwoNumbersOfSegmentsGoTogether) {
  std::set<uint64_t> seen;
  for (int32_t segments = 1; segments <= 65'536; ++segments) {
    RequestTraits traits = kUsual;
    traits.segment_count = segments;
    seen.insert(request_fingerprint(traits));
  }
  EXPECT_EQ(seen.size(), 65'536u);
}

}  // namespace
}  // namespace pleach
