// Cuts tile the model with pieces above the least, rules order them as they say, and annealing
// keeps plans legal and never makes them worse.
#include "pleach/policy/search/plan_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/search/plan_annealing.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

constexpr int64_t kMs = 1'000'000'000;

TrainingProfile random_profile(Rng& rng) {
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(1 + rng.below(20)), .rank_count = 4};
  for (PolicyLayer& layer : profile.layers) {
    layer.tensor_bytes = {static_cast<int64_t>(1 + rng.below(1'000'000))};
    layer.forward_ps = static_cast<int64_t>(rng.below(kMs));
    layer.backward_ps = static_cast<int64_t>(rng.below(kMs));
  }
  return profile;
}

// Whether every cell is reduced once and, unless by an all_reduce, gathered once after that.
bool is_legal(const PlanGrid& grid, const PlanPieces& pieces) {
  std::vector<int> halves(at(grid.cell_count()), 0);
  for (const PlanPiece& one : pieces) {
    for (int32_t cell = one.first; cell < one.end; ++cell) {
      int& done = halves[at(cell)];
      if (done != (one.kind == Kind::kAllGather ? 1 : 0)) {
        return false;
      }
      done += one.kind == Kind::kAllReduce ? 2 : 1;
    }
  }
  return std::ranges::count(halves, 2) == grid.cell_count();
}

TEST(PlanGrid, CutsLayersIntoCellsOfWholeElements) {
  const TrainingProfile profile{
      .layers = {{.tensor_bytes = {100}}, {.tensor_bytes = {}}, {.tensor_bytes = {4, 4}}},
      .rank_count = 4};
  const PlanGrid grid(profile, AlphaBeta(4, 0, 1e9), 30);
  // 100 bytes are three cells, cut at multiples of 8 below 33 and 66.
  ASSERT_EQ(grid.cell_count(), 4);
  EXPECT_EQ(grid.bytes(0, 1), 32);
  EXPECT_EQ(grid.bytes(1, 2), 32);
  EXPECT_EQ(grid.bytes(2, 3), 36);
  EXPECT_EQ(grid.bytes(3, 4), 8);
}

TEST(CutPieces, TileTheModelAboveTheLeast) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng);
    const AlphaBeta costs(4, 0, 1e9);
    const PlanGrid grid(profile, costs, 100'000);
    const int64_t total_bytes = grid.bytes(0, grid.cell_count());
    const auto piece_bytes = static_cast<int64_t>(rng.below(3'000'000));
    const auto least_bytes = static_cast<int64_t>(1 + rng.below(500'000));
    PlanPieces backward = cut_backward(grid, Kind::kReduceScatter, piece_bytes, least_bytes);
    std::ranges::reverse(backward);
    const PlanPieces forward = cut_forward(grid, Kind::kAllGather, piece_bytes, least_bytes);
    for (const PlanPieces& pieces : {backward, forward}) {
      int32_t cell = 0;
      for (const PlanPiece& one : pieces) {
        EXPECT_EQ(one.first, cell);
        EXPECT_GE(grid.bytes(one.first, one.end), std::min(least_bytes, total_bytes));
        cell = one.end;
      }
      EXPECT_EQ(cell, grid.cell_count());
    }
  }
}

// Three layers of 1000 bytes, 2 ms for each half, forward 1 ms a layer. Slow backward leaves gaps
// for all_gathers; after a fast one everything waits at once.
TEST(OrderPieces, FollowsItsRule) {
  struct Case {
    PlanOrder order;
    int64_t backward_ms;   // of a layer
    const char* expected;  // a letter and a layer each
    int64_t time_ms;
  };
  const Case cases[] = {
      {PlanOrder::kForwardPriority, 3, "r2 g2 r1 r0 g0 g1", 17},
      {PlanOrder::kReduceFirst, 3, "r2 g2 r1 r0 g0 g1", 17},
      {PlanOrder::kGatherLast, 3, "r2 r1 r0 g0 g1 g2", 18},
      {PlanOrder::kForwardPriority, 1, "r2 r0 g0 r1 g1 g2", 14},
      {PlanOrder::kReduceFirst, 1, "r2 r0 r1 g0 g1 g2", 14},
      {PlanOrder::kGatherLast, 1, "r2 r0 r1 g0 g1 g2", 14},
  };
  for (const Case& one : cases) {
    const PolicyLayer layer{
        .tensor_bytes = {1000}, .forward_ps = kMs, .backward_ps = one.backward_ms * kMs};
    const TrainingProfile profile{.layers = {layer, layer, layer}, .rank_count = 2};
    const AlphaBeta costs(2, 0, 250e3);
    const PlanGrid grid(profile, costs, 1000);
    const PlanPieces pieces = order_pieces(grid, cut_backward(grid, Kind::kReduceScatter, 1000, 1),
                                           cut_forward(grid, Kind::kAllGather, 1000, 1), one.order);
    std::string text;
    for (const PlanPiece& piece : pieces) {
      text += text.empty() ? "" : " ";
      text += piece.kind == Kind::kReduceScatter ? 'r' : 'g';
      text += std::to_string(piece.first);
    }
    EXPECT_EQ(text, one.expected);
    EXPECT_EQ(score_pieces(grid, pieces).time_ps, one.time_ms * kMs) << text;
  }
}

TEST(Anneal, KeepsPlansLegalAndNeverMakesThemWorse) {
  int better = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng);
    const AlphaBeta costs(4, static_cast<int64_t>(rng.below(kMs / 4)), 1e9);
    const PlanGrid grid(profile, costs, 50'000);
    const auto least_bytes = static_cast<int64_t>(1 + rng.below(100'000));
    const PlanPieces start =
        seed % 3 == 0
            ? cut_backward(grid, Kind::kAllReduce, 300'000, least_bytes)
            : order_pieces(grid, cut_backward(grid, Kind::kReduceScatter, 300'000, least_bytes),
                           cut_forward(grid, Kind::kAllGather, 200'000, least_bytes),
                           PlanOrder::kForwardPriority);
    ASSERT_TRUE(is_legal(grid, start));
    // Any length of walk ends in a legal plan.
    for (const int64_t effort : {0, 100, 1000, 10'000}) {
      const PlanPieces end = anneal(grid, start,
                                    {.least_bytes = least_bytes,
                                     .effort = effort,
                                     .may_convert = seed % 2 == 0,
                                     .seed = seed});
      EXPECT_TRUE(is_legal(grid, end));
      EXPECT_LE(score_pieces(grid, end).time_ps, score_pieces(grid, start).time_ps);
      better += score_pieces(grid, end).time_ps < score_pieces(grid, start).time_ps ? 1 : 0;
      for (const PlanPiece& one : end) {
        EXPECT_EQ(one.cost_ps, costs.time_ps(one.kind, grid.bytes(one.first, one.end)));
        EXPECT_GE(grid.bytes(one.first, one.end),
                  std::min(least_bytes, grid.bytes(0, grid.cell_count())));
      }
    }
  }
  EXPECT_GT(better, 60);
}

}  // namespace
}  // namespace pleach
