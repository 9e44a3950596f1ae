#include "pleach/collective/chunk_grid.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(ChunkGrid, CutsAtExactBoundaries) {
  struct Case {
    std::vector<int64_t> weights;  // empty: uniform of 4
    int64_t element_count;
    std::vector<int64_t> boundaries;
  };
  const std::vector<Case> cases = {
      {{}, 10, {0, 2, 5, 7, 10}},
      {{}, 3, {0, 0, 1, 2, 3}},
      {{}, 0, {0, 0, 0, 0, 0}},
      {{1, 2, 3}, 12, {0, 2, 6, 12}},
      {{1, 2, 3}, 7, {0, 1, 3, 7}},
      {{INT64_MAX / 2, INT64_MAX / 2}, INT64_MAX, {0, INT64_MAX / 2, INT64_MAX}},
  };
  for (const Case& test : cases) {
    const ChunkGrid grid =
        test.weights.empty() ? ChunkGrid::uniform(4) : ChunkGrid::weighted(test.weights);
    ASSERT_EQ(at(grid.count()) + 1, test.boundaries.size());
    for (int32_t chunk = 0; chunk <= grid.count(); ++chunk) {
      EXPECT_EQ(grid.boundary(chunk, test.element_count), test.boundaries[at(chunk)])
          << "chunk " << chunk << " of " << test.element_count;
    }
  }
}

TEST(ChunkGrid, KnowsItsWeights) {
  const ChunkGrid grid = ChunkGrid::weighted({3, 1, 2});
  EXPECT_EQ(grid.count(), 3);
  EXPECT_EQ(grid.total(), 6);
  EXPECT_EQ(grid.weight(0), 3);
  EXPECT_EQ(grid.weight(2), 2);
  EXPECT_FALSE(grid.is_uniform());
  EXPECT_EQ(ChunkGrid::uniform(5).total(), 5);
  EXPECT_EQ(ChunkGrid::uniform(5).weight(4), 1);
}

TEST(ChunkGrid, FindsTheChunkAtAPosition) {
  const ChunkGrid weighted = ChunkGrid::weighted({3, 1, 2});
  const std::vector<int32_t> expected = {0, -1, -1, 1, 2, -1, 3, -1};
  for (std::size_t position = 0; position < expected.size(); ++position) {
    EXPECT_EQ(weighted.chunk_at(static_cast<int64_t>(position)), expected[position]) << position;
  }
  EXPECT_EQ(weighted.chunk_at(-1), -1);
  EXPECT_EQ(ChunkGrid::uniform(4).chunk_at(4), 4);
  EXPECT_EQ(ChunkGrid::uniform(4).chunk_at(5), -1);
}

TEST(ChunkGrid, JudgesWeights) {
  EXPECT_TRUE(ChunkGrid::valid(std::vector<int64_t>{1}));
  EXPECT_TRUE(ChunkGrid::valid(std::vector<int64_t>{INT64_MAX - 1, 1}));
  EXPECT_FALSE(ChunkGrid::valid(std::vector<int64_t>{}));
  EXPECT_FALSE(ChunkGrid::valid(std::vector<int64_t>{1, 0}));
  EXPECT_FALSE(ChunkGrid::valid(std::vector<int64_t>{-1, 5}));
  EXPECT_FALSE(ChunkGrid::valid(std::vector<int64_t>{INT64_MAX, 1}));
}

// A grid and one that cuts each of its chunks in k agree to the element wherever both cut.
TEST(ChunkGrid, RefinementsAgree) {
  Rng rng(1);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> coarse, fine;
    const auto parts = static_cast<int32_t>(1 + rng.below(4));
    for (uint64_t chunk = 0; chunk <= rng.below(6); ++chunk) {
      coarse.push_back(static_cast<int64_t>(1 + rng.below(1000)));
      fine.insert(fine.end(), at(parts), coarse.back());
    }
    const ChunkGrid whole = ChunkGrid::weighted(coarse);
    const ChunkGrid refined = ChunkGrid::weighted(fine);
    const auto element_count = static_cast<int64_t>(rng.below(1'000'000));
    EXPECT_EQ(whole.boundary(whole.count(), element_count), element_count);
    for (int32_t chunk = 0; chunk <= whole.count(); ++chunk) {
      EXPECT_EQ(whole.boundary(chunk, element_count),
                refined.boundary(chunk * parts, element_count));
    }
  }
}

TEST(Segments, PartitionAChunk) {
  EXPECT_EQ(segment_boundary(10, 17, 0, 3), 10);
  EXPECT_EQ(segment_boundary(10, 17, 1, 3), 12);
  EXPECT_EQ(segment_boundary(10, 17, 2, 3), 14);
  EXPECT_EQ(segment_boundary(10, 17, 3, 3), 17);
  EXPECT_EQ(segment_boundary(0, INT64_MAX, 1 << 30, 1 << 30), INT64_MAX);
}

}  // namespace
}  // namespace pleach
