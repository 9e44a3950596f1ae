#include "pleach/collective/merge_chunks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/random_symmetric.h"

namespace pleach {
namespace {

using support::kCopy;
using support::make_schedule;
using support::Move;
using support::pick;
using support::ScheduleShape;

// Where the merged chunks begin and end; nothing where none are merged.
std::vector<int32_t> boundaries(const ScheduleShape& shape, const std::vector<Move>& moves) {
  const auto merged = merge_alike_chunks(make_schedule(shape, moves));
  return merged ? merged->first_chunk : std::vector<int32_t>();
}

TEST(MergeChunks, CutsWhereATransferOrAPartBegins) {
  using Boundaries = std::vector<int32_t>;
  EXPECT_EQ(boundaries({.chunk_count = 9}, {{0, 9, 0, 1}}), (Boundaries{0, 9}));
  EXPECT_EQ(boundaries({.chunk_count = 9}, {{2, 3, 0, 1}, {4, 5, 1, 0}}),
            (Boundaries{0, 2, 4, 5, 9}));
  EXPECT_EQ(boundaries({.chunk_count = 9}, {}), (Boundaries{0, 9}));
  // No fewer than half as many are worth it.
  EXPECT_EQ(boundaries({.chunk_count = 7}, {{2, 3, 0, 1}, {4, 2, 1, 0}}), Boundaries());
  EXPECT_EQ(boundaries({.chunk_count = 2}, {{0, 1, 0, 1}, {1, 1, 1, 0}}), Boundaries());
  EXPECT_EQ(boundaries({.collective = CollectiveKind::kAllGather, .chunk_count = 8},
                       {{0, 4, 0, 1, kCopy}, {4, 4, 1, 0, kCopy}}),
            (Boundaries{0, 4, 8}));
  EXPECT_EQ(boundaries({.collective = CollectiveKind::kReduceScatter, .chunk_count = 8}, {}),
            (Boundaries{0, 4, 8}));
  EXPECT_EQ(boundaries({.collective = CollectiveKind::kAllToAll, .chunk_count = 12}, {}),
            (Boundaries{0, 3, 6, 9, 12}));
}

// A refined schedule comes back as it was, merged with its like at most, and is judged as before.
void expect_merged(const Schedule& schedule, Rng& rng, int32_t& correct, int32_t& incorrect) {
  const std::vector<int64_t> cut = support::random_parts(9, 2 + pick(rng, 3), rng);
  const Schedule fine = support::refine(schedule, cut);
  if (!check_form(fine, nullptr).empty()) {
    EXPECT_FALSE(check_form(schedule, nullptr).empty());
    return;
  }
  const auto merged = merge_alike_chunks(fine);
  ASSERT_TRUE(merged);
  EXPECT_LE(merged->schedule.chunks.count(), schedule.chunks.count());
  EXPECT_EQ(check_form(merged->schedule, nullptr), std::vector<std::string>());
  ASSERT_EQ(count_of(merged->first_chunk), merged->schedule.chunks.count() + 1);
  for (int32_t chunk = 0; chunk <= merged->schedule.chunks.count(); ++chunk) {
    const int32_t begin = merged->first_chunk[at(chunk)];
    EXPECT_EQ(begin % count_of(cut), 0);
    EXPECT_EQ(merged->schedule.chunks.cumulative(chunk) * fine.chunks.total(),
              fine.chunks.cumulative(begin) * merged->schedule.chunks.total());
  }
  for (std::size_t i = 0; i < fine.transfers.size(); ++i) {
    const Transfer& old = fine.transfers[i];
    Transfer restored = merged->schedule.transfers[i];
    const int32_t end = restored.first_chunk + restored.chunk_count;
    restored.first_chunk = merged->first_chunk[at(restored.first_chunk)];
    restored.chunk_count = merged->first_chunk[at(end)] - restored.first_chunk;
    EXPECT_EQ(restored, old);
  }
  const Verification before = verify(schedule, nullptr), after = verify(fine, nullptr);
  EXPECT_EQ(before.correct, after.correct);
  EXPECT_EQ(before.bitwise_replicated, after.bitwise_replicated);
  EXPECT_EQ(before.contention_free, after.contention_free);
  ++(after.correct ? correct : incorrect);
}

TEST(MergeChunks, KeepsTheVerdictOfRandomSchedules) {
  int32_t correct = 0, incorrect = 0;
  for (int32_t seed = 0; seed < support::repeated(2'000) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    expect_merged(support::random_schedule({.most_ranks = 3, .most_moves = 8}, rng), rng, correct,
                  incorrect);
    const std::vector<int32_t> dimensions[] = {{3}, {2, 2}, {5}, {3, 2}};
    expect_merged(support::random_symmetric_schedule(dimensions[rng.below(4)], rng), rng, correct,
                  incorrect);
  }
  EXPECT_GT(correct, 1'000);
  EXPECT_GT(incorrect, 1'000);
}

// What a transfer of many chunks costs is that of one.
TEST(MergeChunks, ProvesTheWidestTransfersAtOnce) {
  const int32_t most = kMaxScheduleChunks;
  const Verification proof = verify(
      make_schedule({.chunk_count = most}, {{0, most, 0, 1}, {0, most, 1, 0, kCopy, 1}}), nullptr);
  EXPECT_EQ(proof.violations, std::vector<std::string>());
  EXPECT_TRUE(proof.correct);
  EXPECT_TRUE(proof.bitwise_replicated);
}

}  // namespace
}  // namespace pleach
