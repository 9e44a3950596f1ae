#include "pleach/collective/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

Schedule make(CollectiveKind kind, int32_t rank_count, ChunkGrid chunks, int32_t root = 0) {
  Schedule schedule;
  schedule.collective = kind;
  schedule.root = Rank{root};
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    schedule.participants.push_back(NodeId{rank});
  }
  schedule.chunks = std::move(chunks);
  return schedule;
}

using MaybeInterval = std::optional<Interval>;

TEST(Placement, PlacesEachCollective) {
  struct Case {
    CollectiveKind kind;
    int32_t chunk;
    int64_t count;
    std::vector<MaybeInterval> inputs;  // by rank
    std::vector<MaybeInterval> outputs;
  };
  const MaybeInterval none;
  // Three ranks, root 1; 3 chunks, or 9 for all_to_all.
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce,
       1,
       10,
       {{{3, 6}}, {{3, 6}}, {{3, 6}}},
       {{{3, 6}}, {{3, 6}}, {{3, 6}}}},
      {CollectiveKind::kReduce, 2, 10, {{{6, 10}}, {{6, 10}}, {{6, 10}}}, {none, {{6, 10}}, none}},
      {CollectiveKind::kBroadcast, 0, 10, {none, {{0, 3}}, none}, {{{0, 3}}, {{0, 3}}, {{0, 3}}}},
      {CollectiveKind::kReduceScatter,
       1,
       10,
       {{{3, 6}}, {{3, 6}}, {{3, 6}}},
       {none, {{0, 3}}, none}},
      {CollectiveKind::kAllGather,
       2,
       10,
       {none, none, {{0, 4}}},
       {{{6, 10}}, {{6, 10}}, {{6, 10}}}},
      // Block (1, 2): from rank 1's third part to rank 2's second.
      {CollectiveKind::kAllToAll, 5, 6, {none, {{4, 6}}, none}, {none, none, {{2, 4}}}},
      {CollectiveKind::kAllToAll, 4, 6, {none, {{2, 4}}, none}, {none, {{2, 4}}, none}},
      {CollectiveKind::kGather, 2, 10, {none, none, {{0, 4}}}, {none, {{6, 10}}, none}},
      {CollectiveKind::kScatter, 2, 10, {none, {{6, 10}}, none}, {none, none, {{0, 4}}}},
  };
  for (const Case& test : cases) {
    const int32_t chunk_count = test.kind == CollectiveKind::kAllToAll ? 9 : 3;
    const int32_t root = has_root(test.kind) ? 1 : 0;
    const Schedule schedule = make(test.kind, 3, ChunkGrid::uniform(chunk_count), root);
    const auto placement = Placement::create(schedule, test.count);
    ASSERT_TRUE(placement);
    for (int32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(placement->input(Rank{rank}, test.chunk), test.inputs[at(rank)])
          << to_text(test.kind) << " input of rank " << rank;
      EXPECT_EQ(placement->output(Rank{rank}, test.chunk), test.outputs[at(rank)])
          << to_text(test.kind) << " output of rank " << rank;
    }
  }
}

// Every rank's inputs partition its input buffer, its outputs its output buffer.
TEST(Placement, CoversEveryBufferOnce) {
  for (const CollectiveKind kind : kAllCollectives) {
    for (const int32_t rank_count : {1, 2, 3, 5}) {
      for (const int64_t per_rank : {0, 1, 4, 7}) {
        const bool is_exchange = kind == CollectiveKind::kAllToAll;
        const int32_t parts = is_exchange ? rank_count * rank_count : rank_count;
        const int64_t count = per_rank * rank_count + (is_exchange || per_rank == 0 ? 0 : 1);
        const Schedule schedule = make(kind, rank_count, ChunkGrid::uniform(2 * parts));
        const auto placement = Placement::create(schedule, count);
        ASSERT_TRUE(placement);
        for (int32_t rank = 0; rank < rank_count; ++rank) {
          std::vector<int> input(at(placement->sizes(Rank{rank}).input));
          std::vector<int> output(at(placement->sizes(Rank{rank}).output));
          for (int32_t chunk = 0; chunk < 2 * parts; ++chunk) {
            const auto mark = [&](const MaybeInterval& interval, std::vector<int>& buffer) {
              ASSERT_EQ(interval->end - interval->begin, placement->length(chunk));
              for (int64_t i = interval->begin; i < interval->end; ++i) {
                ++buffer.at(at(i));
              }
            };
            const auto from = placement->input(Rank{rank}, chunk);
            const auto to = placement->output(Rank{rank}, chunk);
            EXPECT_EQ(from.has_value(), has_input(schedule, Rank{rank}, chunk));
            EXPECT_EQ(to.has_value(), has_output(schedule, Rank{rank}, chunk));
            if (from) {
              mark(from, input);
            }
            if (to) {
              mark(to, output);
            }
          }
          const bool reads_input = !is_from_root(kind) || rank == 0;
          const bool writes_output = !is_to_root(kind) || rank == 0;
          EXPECT_EQ(std::count(input.begin(), input.end(), reads_input ? 1 : 0), std::ssize(input));
          EXPECT_EQ(std::count(output.begin(), output.end(), writes_output ? 1 : 0),
                    std::ssize(output));
        }
      }
    }
  }
}

// The same where every part has a count of its own; chunks of a part weigh 1 and 2.
TEST(Placement, CoversPartsOfAnyCounts) {
  const std::vector<int64_t> kinds_of_counts = {0, 7, 1, 0, 4, 100, 2};
  for (const CollectiveKind kind : kAllCollectives) {
    for (const int32_t rank_count : {1, 2, 3, 5}) {
      const auto parts = static_cast<int32_t>(part_count(kind, rank_count));
      std::vector<int64_t> weights, counts;
      for (int32_t part = 0; part < parts; ++part) {
        weights.insert(weights.end(), {1, 2});
        counts.push_back(kinds_of_counts[at(part) % kinds_of_counts.size()]);
      }
      const Schedule schedule = make(kind, rank_count, ChunkGrid::weighted(weights));
      const auto placement = Placement::create(schedule, counts);
      ASSERT_EQ(placement.has_value(), has_parts(kind)) << to_text(kind);
      for (int32_t chunk = 0; placement && chunk < 2 * parts; ++chunk) {
        const int64_t count = counts[at(placement->part_of(chunk))];
        EXPECT_EQ(placement->part_of(chunk), chunk / 2);
        EXPECT_EQ(placement->length(chunk), chunk % 2 == 0 ? count / 3 : count - count / 3);
      }
      for (int32_t rank = 0; placement && rank < rank_count; ++rank) {
        // One chunk behind the other, by part.
        BufferSizes covered;
        for (int32_t chunk = 0; chunk < 2 * parts; ++chunk) {
          if (const auto from = placement->input(Rank{rank}, chunk)) {
            EXPECT_EQ(from->begin, covered.input);
            covered.input += placement->length(chunk);
            EXPECT_EQ(from->end, covered.input);
          }
          if (const auto to = placement->output(Rank{rank}, chunk)) {
            EXPECT_EQ(to->begin, covered.output);
            covered.output += placement->length(chunk);
            EXPECT_EQ(to->end, covered.output);
          }
        }
        const BufferSizes sizes = placement->sizes(Rank{rank});
        EXPECT_EQ(sizes.input, is_from_root(kind) && rank != 0 ? sizes.input : covered.input);
        EXPECT_EQ(sizes.output, is_to_root(kind) && rank != 0 ? sizes.output : covered.output);
      }
    }
  }
}

// Equal counts are those of the whole.
TEST(Placement, EqualPartsLieAsThoseOfACount) {
  for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                    CollectiveKind::kAllToAll, CollectiveKind::kScatter}) {
    const auto parts = static_cast<int32_t>(part_count(kind, 3));
    const Schedule schedule = make(kind, 3, ChunkGrid::uniform(2 * parts));
    const auto whole = Placement::create(schedule, 3 * 7);
    const auto by_part = Placement::create(schedule, std::vector<int64_t>(at(parts), 7));
    ASSERT_TRUE(whole && by_part);
    for (int32_t chunk = 0; chunk < 2 * parts; ++chunk) {
      for (int32_t rank = 0; rank < 3; ++rank) {
        EXPECT_EQ(whole->input(Rank{rank}, chunk), by_part->input(Rank{rank}, chunk));
        EXPECT_EQ(whole->output(Rank{rank}, chunk), by_part->output(Rank{rank}, chunk));
      }
    }
  }
}

TEST(Placement, RefusesCountsOfPartsThatDoNotFit) {
  const Schedule shards = make(CollectiveKind::kAllGather, 3, ChunkGrid::uniform(3));
  const auto refused = [&](std::vector<int64_t> counts) {
    const auto placement = Placement::create(shards, counts);
    return placement ? "" : placement.error().message;
  };
  EXPECT_EQ(refused({1, 2}), "2 counts for the 3 parts of all_gather on 3 ranks");
  EXPECT_EQ(refused({1, -2, 1}), "count -2 is negative");
  EXPECT_EQ(refused({1, INT64_MAX, 1}), "the counts of all parts are too large");
  EXPECT_EQ(refused({0, INT64_MAX, 0}), "");
}

TEST(Placement, NamesSourcesAndDestinations) {
  struct Case {
    CollectiveKind kind;
    int32_t chunk;
    std::optional<Rank> source;
    std::optional<Rank> destination;
  };
  const ChunkGrid shards = ChunkGrid::weighted({1, 2, 3, 2, 1});
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce, 1, {}, {}},
      {CollectiveKind::kReduceScatter, 1, {}, Rank{0}},
      {CollectiveKind::kReduceScatter, 2, {}, Rank{1}},
      {CollectiveKind::kReduceScatter, 4, {}, Rank{2}},
      {CollectiveKind::kAllGather, 2, Rank{1}, {}},
      {CollectiveKind::kBroadcast, 2, Rank{1}, {}},
      {CollectiveKind::kReduce, 4, {}, Rank{1}},
      {CollectiveKind::kGather, 3, Rank{2}, Rank{1}},
      {CollectiveKind::kScatter, 1, Rank{1}, Rank{0}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(to_text(test.kind));
    const Schedule schedule = make(test.kind, 3, shards, has_root(test.kind) ? 1 : 0);
    EXPECT_EQ(chunk_source(schedule, test.chunk), test.source);
    EXPECT_EQ(chunk_destination(schedule, test.chunk), test.destination);
  }
  const Schedule blocks = make(CollectiveKind::kAllToAll, 2, ChunkGrid::uniform(8));
  EXPECT_EQ(chunk_source(blocks, 3), Rank{0});
  EXPECT_EQ(chunk_destination(blocks, 3), Rank{1});
  EXPECT_EQ(chunk_source(blocks, 4), Rank{1});
  EXPECT_EQ(chunk_destination(blocks, 4), Rank{0});
}

TEST(Placement, RefusesCountsThatDoNotFit) {
  const Schedule exchange = make(CollectiveKind::kAllToAll, 4, ChunkGrid::uniform(16));
  const Schedule reduction = make(CollectiveKind::kAllReduce, 4, ChunkGrid::uniform(4));
  EXPECT_FALSE(Placement::create(reduction, -1));
  EXPECT_TRUE(Placement::create(reduction, INT64_MAX));
  EXPECT_TRUE(Placement::create(exchange, 8));
  const auto uneven = Placement::create(exchange, 6);
  ASSERT_FALSE(uneven);
  EXPECT_NE(uneven.error().message.find("6 elements on 4 ranks"), std::string::npos);
  EXPECT_FALSE(Placement::create(exchange, INT64_MAX - 3));
}

}  // namespace
}  // namespace pleach
