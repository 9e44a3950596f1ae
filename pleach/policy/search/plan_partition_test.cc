// Partitions by dynamic programming are the best of all, each for its phase and both together.
#include "pleach/policy/search/plan_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/search/plan_order.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

constexpr int32_t kRanks = 4;

// A startup and a price per byte for every kind, and a jump where messages become large: neither
// linear nor concave.
class Stepped : public CostModel {
 public:
  explicit Stepped(Rng& rng)
      : startup_ps_(draw(rng, 3000)), ps_per_byte_(draw(rng, 20)), jump_ps_(draw(rng, 2000)) {}
  bool has(Kind /*kind*/) const override { return true; }
  int64_t time_ps(Kind kind, int64_t bytes) const override {
    const int64_t one_ps = startup_ps_ + bytes * ps_per_byte_ + (bytes > 700 ? jump_ps_ : 0);
    return kind == Kind::kAllReduce ? 2 * one_ps : one_ps;
  }

 private:
  static int64_t draw(Rng& rng, uint64_t below) { return static_cast<int64_t>(rng.below(below)); }
  int64_t startup_ps_;
  int64_t ps_per_byte_;
  int64_t jump_ps_;
};

TrainingProfile random_profile(Rng& rng, uint64_t layers) {
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(layers), .rank_count = kRanks};
  for (PolicyLayer& layer : profile.layers) {
    layer.tensor_bytes = {static_cast<int64_t>(1 + rng.below(400))};
    layer.forward_ps = static_cast<int64_t>(rng.below(5000));
    layer.backward_ps = static_cast<int64_t>(rng.below(10'000));
  }
  return profile;
}

// Time of a phase by itself: until the last reduction has ended, from the start of backward; or
// until the end of forward, from the start of the first all_gather.
int64_t phase_ps(const PlanGrid& grid, const PlanPieces& pieces) {
  int64_t now_ps = 0;
  int64_t end_ps = 0;
  for (const PlanPiece& one : pieces) {
    const bool is_gather = one.kind == Kind::kAllGather;
    now_ps = one.cost_ps + (is_gather ? now_ps : std::max(now_ps, grid.ready_ps(one.first)));
    end_ps = std::max(end_ps, is_gather ? now_ps + grid.rest_ps(one.first) : now_ps);
  }
  return end_ps;
}

// Cut where a bit of `mask` says so; in the order on the wire.
PlanPieces masked_pieces(const PlanGrid& grid, Kind kind, uint32_t mask) {
  PlanPieces pieces;
  int32_t first = 0;
  for (int32_t end = 1; end <= grid.cell_count(); ++end) {
    if (end == grid.cell_count() || (mask >> (end - 1) & 1) != 0) {
      pieces.push_back(grid.piece(kind, first, end));
      first = end;
    }
  }
  if (kind != Kind::kAllGather) {
    std::ranges::reverse(pieces);
  }
  return pieces;
}

bool has_least(const PlanGrid& grid, const PlanPieces& pieces, int64_t least_bytes) {
  return pieces.size() == 1 || std::ranges::all_of(pieces, [&](const PlanPiece& one) {
           return grid.bytes(one.first, one.end) >= least_bytes;
         });
}

// All legal partitions of up to eight cells, layers and parts of layers.
std::vector<PlanPieces> all_partitions(const PlanGrid& grid, Kind kind, int64_t least_bytes) {
  std::vector<PlanPieces> partitions;
  for (uint32_t mask = 0; mask < uint32_t{1} << (grid.cell_count() - 1); ++mask) {
    PlanPieces pieces = masked_pieces(grid, kind, mask);
    if (has_least(grid, pieces, least_bytes)) {
      partitions.push_back(std::move(pieces));
    }
  }
  return partitions;
}

int64_t best_phase_ps(const PlanGrid& grid, const std::vector<PlanPieces>& partitions) {
  int64_t best_ps = INT64_MAX;
  for (const PlanPieces& pieces : partitions) {
    best_ps = std::min(best_ps, phase_ps(grid, pieces));
  }
  return best_ps;
}

TEST(CutOptimally, FindsTheBestOfAllPartitions) {
  int cut = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const uint64_t layers = 1 + rng.below(8);
    const TrainingProfile profile = random_profile(rng, layers);
    const Stepped costs(rng);
    const PlanGrid grid(profile, costs, layers > 4 ? 400 : 150);  // few layers are cut
    ASSERT_LE(grid.cell_count(), 8);
    const auto least_bytes = static_cast<int64_t>(1 + rng.below(2) * rng.below(600));
    for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      const PlanPieces pieces = cut_optimally(grid, kind, least_bytes);
      const std::vector<PlanPieces> partitions = all_partitions(grid, kind, least_bytes);
      EXPECT_EQ(std::ranges::count(partitions, pieces), 1) << "no legal partition";
      EXPECT_EQ(phase_ps(grid, pieces), best_phase_ps(grid, partitions));
      cut += pieces.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(cut, 200);
}

// Of plans whose all_gathers follow the last reduction, as in DeAR, none is better.
TEST(CutOptimally, IsTheBestPlanOfTwoPhases) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng, 1 + rng.below(6));
    const Stepped costs(rng);
    const PlanGrid grid(profile, costs, 400);
    int64_t best_ps = INT64_MAX;
    for (const PlanPieces& reductions : all_partitions(grid, Kind::kReduceScatter, 1)) {
      for (const PlanPieces& gathers : all_partitions(grid, Kind::kAllGather, 1)) {
        PlanPieces plan = reductions;
        plan.insert(plan.end(), gathers.begin(), gathers.end());
        best_ps = std::min(best_ps, score_pieces(grid, plan).time_ps);
      }
    }
    const PlanPieces plan =
        order_pieces(grid, cut_optimally(grid, Kind::kReduceScatter, 1),
                     cut_optimally(grid, Kind::kAllGather, 1), PlanOrder::kGatherLast);
    EXPECT_EQ(score_pieces(grid, plan).time_ps, best_ps);
  }
}

// Of 600 equal layers every second boundary is considered, among them those of 1, 2, ... 300 equal
// parts.
TEST(CutOptimally, ConsidersFewCutsOfAFineGrid) {
  const PolicyLayer layer{.tensor_bytes = {1000}, .forward_ps = 300, .backward_ps = 900};
  const TrainingProfile profile{.layers = std::vector<PolicyLayer>(600, layer),
                                .rank_count = kRanks};
  const AlphaBeta costs(kRanks, 1000, 1e12);
  const PlanGrid grid(profile, costs, 1000);
  for (const Kind kind : {Kind::kReduceScatter, Kind::kAllGather}) {
    const PlanPieces best = cut_optimally(grid, kind, 1);
    EXPECT_GT(best.size(), 1U);
    int32_t cell_count = 0;
    for (const PlanPiece& one : best) {
      EXPECT_EQ(one.first % 2, 0);
      EXPECT_EQ(one.end % 2, 0);
      cell_count += one.end - one.first;
    }
    EXPECT_EQ(cell_count, 600);
    for (const int64_t parts : {1, 2, 3, 10, 50, 100, 150, 300}) {
      const PlanPieces uniform = kind == Kind::kAllGather
                                     ? cut_forward(grid, kind, 600'000 / parts, 1)
                                     : cut_backward(grid, kind, 600'000 / parts, 1);
      EXPECT_LE(phase_ps(grid, best), phase_ps(grid, uniform)) << parts << " parts";
    }
  }
}

}  // namespace
}  // namespace pleach
