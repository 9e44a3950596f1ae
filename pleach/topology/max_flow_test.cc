#include "pleach/topology/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

int64_t capacity_out(const std::vector<FlowArc>& arcs, uint32_t set) {
  int64_t capacity = 0;
  for (const FlowArc& arc : arcs) {
    const bool leaves = (set >> arc.source & 1) != 0 && (set >> arc.target & 1) == 0;
    capacity += leaves ? arc.capacity : 0;
  }
  return capacity;
}

uint32_t side_of(const MinimumCut& cut) {
  uint32_t set = 0;
  for (std::size_t node = 0; node < cut.source_side.size(); ++node) {
    set |= (cut.source_side[node] ? 1U : 0U) << node;
  }
  return set;
}

// The least cut over the sets that hold `inside` and not `outside` (-1: any other node).
int64_t least_cut(const std::vector<FlowArc>& arcs, int32_t node_count, int32_t inside,
                  int32_t outside) {
  int64_t least = INT64_MAX;
  for (uint32_t set = 1; set + 1 < (1U << node_count); ++set) {
    const bool fits =
        (inside < 0 || (set >> inside & 1) != 0) && (outside < 0 || (set >> outside & 1) == 0);
    least = fits ? std::min(least, capacity_out(arcs, set)) : least;
  }
  return least;
}

TEST(MaxFlow, CutsAreTheLeastOfAllSets) {
  constexpr uint64_t kSeed = 17;
  Rng rng(kSeed);
  for (int trial = 0; trial < 300; ++trial) {
    const auto node_count = static_cast<int32_t>(2 + rng.below(6));
    std::vector<FlowArc> arcs;
    for (uint64_t arc = rng.below(25); arc > 0; --arc) {
      const auto source = static_cast<int32_t>(rng.below(static_cast<uint64_t>(node_count)));
      const auto target = static_cast<int32_t>(rng.below(static_cast<uint64_t>(node_count)));
      if (source != target) {
        arcs.push_back({source, target, static_cast<int64_t>(rng.below(10))});
      }
    }
    const FlowGraph graph(node_count, arcs);
    const std::vector<std::pair<MinimumCut, int64_t>> cuts = {
        {graph.between(0, node_count - 1), least_cut(arcs, node_count, 0, node_count - 1)},
        {graph.out_of(1), least_cut(arcs, node_count, 1, -1)},
        {graph.into(1), least_cut(arcs, node_count, -1, 1)},
    };
    for (const auto& [cut, least] : cuts) {
      EXPECT_EQ(cut.capacity, least) << "seed " << kSeed << ", trial " << trial;
      EXPECT_EQ(capacity_out(arcs, side_of(cut)), least) << "seed " << kSeed;
    }
  }
}

TEST(MaxFlow, UnitsKeepSumsSmall) {
  EXPECT_EQ(capacity_unit({300, 25}, 1000), 25);
  EXPECT_EQ(capacity_unit({}, 1), 1);
  const int64_t huge = INT64_MAX;
  const std::vector<int64_t> capacities = {huge, huge - 1, huge / 3};
  const int64_t unit = capacity_unit(capacities, 1000);
  double total = 0;
  for (const int64_t capacity : capacities) {
    const int64_t units = (capacity - 1) / unit + 1;
    total += static_cast<double>(units) * 1000;
  }
  EXPECT_LE(total, 0x1p61);
}

}  // namespace
}  // namespace pleach
