#include "pleach/collective/pieces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/verify.h"
#include "tests/support/random_schedules.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;
using Counts = std::vector<int64_t>;

// A rank's part of a piece: where it lies in the whole, and in the rank's shard.
struct Part {
  Interval in_whole, in_shard;
};

// By the definition: pieces one behind the other, ranks one behind the other in each.
std::vector<Part> parts_of(const Counts& counts, std::size_t n) {
  std::vector<Part> parts;
  std::vector<int64_t> shards(n, 0);
  int64_t whole = 0;
  for (std::size_t index = 0; index < counts.size(); ++index) {
    int64_t& shard = shards[index % n];
    parts.push_back({{whole, whole + counts[index]}, {shard, shard + counts[index]}});
    whole += counts[index];
    shard += counts[index];
  }
  return parts;
}

// Every element of the whole is in one chunk, of a chunk of the part's rank, at the place in its
// shard that the piece gives it.
void expect_placed(const PiecedSchedule& pieced, const Counts& counts) {
  const Schedule& schedule = pieced.schedule;
  const auto n = at(schedule.rank_count());
  const Placement placement = Placement::create(pieced);
  ASSERT_EQ(count_of(pieced.places), schedule.chunks.count());
  std::vector<int64_t> shard_of_element, rank_of_element;
  for (std::size_t index = 0; const Part& part : parts_of(counts, n)) {
    for (int64_t k = 0; k < part.in_whole.end - part.in_whole.begin; ++k) {
      rank_of_element.push_back(static_cast<int64_t>(index % n));
      shard_of_element.push_back(part.in_shard.begin + k);
    }
    ++index;
  }
  std::vector<int32_t> covered(rank_of_element.size(), 0);
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    const ChunkPlace& place = pieced.places[at(chunk)];
    for (int64_t k = 0; k < place.length; ++k) {
      const std::size_t element = at(place.whole_begin + k);
      ASSERT_LT(element, covered.size());
      ++covered[element];
      EXPECT_EQ(rank_of_element[element], placement.part_of(chunk)) << element;
      EXPECT_EQ(shard_of_element[element], place.shard_begin + k) << element;
    }
  }
  EXPECT_EQ(std::ranges::count(covered, 1), std::ssize(covered));
}

TEST(Pieces, OneChunkPerPartIsCutWhereThePiecesEnd) {
  const Schedule ring = support::ring_schedule(Kind::kAllGather, 2);
  const auto pieced = cut_into_pieces(ring, Counts{3, 1, 0, 4, 2, 2}, 100);
  ASSERT_TRUE(pieced.has_value()) << pieced.error().message;
  EXPECT_EQ(pieced->shards, (Counts{5, 7}));
  struct Expected {
    int64_t length, whole, shard;
  };
  const std::vector<Expected> expected = {{3, 0, 0}, {2, 8, 3}, {1, 3, 0}, {4, 4, 1}, {2, 10, 5}};
  ASSERT_EQ(pieced->places.size(), expected.size());
  for (std::size_t chunk = 0; chunk < expected.size(); ++chunk) {
    SCOPED_TRACE(chunk);
    EXPECT_EQ(pieced->places[chunk].length, expected[chunk].length);
    EXPECT_EQ(pieced->places[chunk].whole_begin, expected[chunk].whole);
    EXPECT_EQ(pieced->places[chunk].shard_begin, expected[chunk].shard);
  }
  EXPECT_EQ(pieced->schedule.transfers[0].chunk_count, 2);
}

// Pieces of five elements, of which no number makes eight: transfers are full all the same.
TEST(Pieces, TransfersAreFullWhereverPiecesEnd) {
  const Schedule ring = support::ring_schedule(Kind::kReduceScatter, 2);
  const Counts counts(12, 5);
  const auto pieced = cut_into_pieces(ring, counts, 8);
  ASSERT_TRUE(pieced.has_value()) << pieced.error().message;
  std::vector<int64_t> lengths;
  for (const Transfer& transfer : pieced->schedule.transfers) {
    lengths.push_back(0);
    for (int32_t k = 0; k < transfer.chunk_count; ++k) {
      lengths.back() += pieced->places[at(transfer.first_chunk + k)].length;
    }
  }
  EXPECT_EQ(lengths, (Counts{8, 8, 8, 6, 8, 8, 8, 6}));
  EXPECT_TRUE(verify(pieced->schedule, nullptr).correct);
  expect_placed(*pieced, counts);
}

TEST(Pieces, RefinedSchedulesAreProvedAndPlaced) {
  Rng rng(20'260);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    const auto n = static_cast<int32_t>(1 + rng.below(6));
    const Kind kind = rng.below(2) == 0 ? Kind::kAllGather : Kind::kReduceScatter;
    Schedule schedule =
        rng.below(2) == 0 ? support::ring_schedule(kind, n) : support::direct_schedule(kind, n);
    std::vector<int64_t> cut(at(schedule.chunks.count()));
    std::ranges::generate(cut, [&] { return static_cast<int64_t>(1 + rng.below(3)); });
    schedule = support::refine(schedule, cut);
    Counts counts(at(n) * (1 + rng.below(9)));
    std::ranges::generate(
        counts, [&] { return rng.below(3) == 0 ? 0 : static_cast<int64_t>(rng.below(40)); });
    const auto most = static_cast<int64_t>(1 + rng.below(30));
    const auto pieced = cut_into_pieces(schedule, counts, most);
    ASSERT_TRUE(pieced.has_value()) << pieced.error().message;
    for (const Transfer& transfer : pieced->schedule.transfers) {
      int64_t elements = 0;
      for (int32_t k = 0; k < transfer.chunk_count; ++k) {
        elements += pieced->places[at(transfer.first_chunk + k)].length;
      }
      EXPECT_LE(elements, most);
    }
    const Verification proof = verify(pieced->schedule, nullptr);
    EXPECT_TRUE(proof.correct) << (proof.violations.empty() ? "" : proof.violations.front());
    EXPECT_EQ(check_form(pieced->schedule, nullptr), std::vector<std::string>());
    expect_placed(*pieced, counts);
  }
}

TEST(Pieces, SymmetricSchedulesAreWrittenOut) {
  Schedule ring = support::ring_schedule(Kind::kAllGather, 4);
  std::erase_if(ring.transfers, [](const Transfer& one) { return one.first_chunk != 0; });
  ring.symmetry = Symmetry{{4}};
  const Counts counts = {3, 3, 3, 3, 1, 0, 2, 5};
  const auto pieced = cut_into_pieces(ring, counts, 1000);
  ASSERT_TRUE(pieced.has_value()) << pieced.error().message;
  EXPECT_FALSE(pieced->schedule.symmetry.has_value());
  EXPECT_EQ(std::ssize(pieced->schedule.transfers), 12);
  EXPECT_TRUE(verify(pieced->schedule, nullptr).correct);
  expect_placed(*pieced, counts);
}

TEST(Pieces, BadCountsAreRefused) {
  const Schedule ring = support::ring_schedule(Kind::kAllGather, 3);
  std::vector<support::Move> moves;  // to and fro
  for (int32_t step = 0; step < 4096; ++step) {
    moves.push_back({0, 1, step % 2, (step + 1) % 2, support::kCopy, step});
  }
  const Schedule long_one = support::make_schedule(
      {.collective = Kind::kAllGather, .rank_count = 2, .chunk_count = 2}, moves);
  struct Case {
    const Schedule* schedule;
    Counts counts;
    std::string says;
    int64_t most = 1000;
  };
  const std::vector<Case> cases = {
      {&ring, {}, "0 counts are not those of some pieces on 3 ranks"},
      {&ring, {1, 2}, "2 counts are not those of some pieces on 3 ranks"},
      {&ring, {1, 2, 3, 4}, "4 counts are not those of some pieces on 3 ranks"},
      {&ring, {1, -2, 3}, "count -2 is negative"},
      {&ring, {INT64_MAX, 1, 0}, "the counts of all parts are too large"},
      {&ring, Counts(std::size_t{3} * 5'592'405, 1), "5592405 pieces of 3 chunks are too many"},
      {&long_one, Counts(20'000, 1), "10000 pieces make over 33554432 moves of chunks"},
      {&ring, {0, 1 << 25, 0}, "1 pieces make over 16777216 chunks", 1},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.says);
    const auto pieced = cut_into_pieces(*row.schedule, row.counts, row.most);
    ASSERT_FALSE(pieced.has_value());
    EXPECT_EQ(pieced.error().message.substr(0, row.says.size()), row.says);
  }
}

}  // namespace
}  // namespace pleach
