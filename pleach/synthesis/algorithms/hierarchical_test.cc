// hierarchical: what its parts load links with, on the wafers that it is the baseline of.
#include <gtest/gtest.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;

std::vector<NodeId> nodes_of(const std::vector<int32_t>& numbers) {
  std::vector<NodeId> nodes;
  for (const int32_t number : numbers) {
    nodes.push_back(NodeId{number});
  }
  return nodes;
}

// 5 columns and 4 rows of 750 GB/s; five leaves of four at 3 TB/s, whose way up takes 1.5 TB/s and
// 12 TB/s.
const std::string kMesh = "mesh:4x5,bandwidth=750GB/s";
const std::string kLeaves = "leaf_spine:5x4,spines=1,bandwidth=3TB/s,overhead=0,header=0";
const std::string kNarrow = kLeaves + ",oversubscription=8";

// Large buffers D take so many D/B.
TEST(Hierarchical, TakesItsClosedForms) {
  const struct {
    std::string topology, options;
    std::vector<int32_t> group;
    double bandwidth, buffers;
  } cases[] = {
      // Rows carry 2·(4/5)·f + 2·(4/5)·(1-f)/4, columns 2·(3/4)·(1-f) + 2·(3/4)·f/5.
      {kMesh, "", {}, 750e9, 1},
      {kMesh, ",shares=1+1", {}, 750e9, 1},
      {kMesh, ",shares=11+13", {}, 750e9, 0.95},
      {kMesh, ",shares=1+0", {}, 750e9, 1.6},
      {kMesh, ",shares=0+1", {}, 750e9, 1.5},
      {kMesh, ",orders=one", {}, 750e9, 1.6},
      {kMesh, ",shares=3+1", {}, 750e9, 1.3},
      {kMesh, "", {5, 6, 7, 8, 9}, 750e9, 1.6},  // a row: there and back
      {kMesh, "", {2, 7, 12, 17}, 750e9, 1.5},
      {kMesh, "", {3, 8}, 750e9, 1},
      {kMesh, "", {6, 9, 5, 8, 7}, 750e9, 1.6},  // ranks are numbered anyhow
      {kNarrow, "", {}, 375e9, 0.4},
      {kLeaves, "", {}, 3e12, 1.9},
      {kLeaves, "", {0, 4, 8, 12, 16}, 3e12, 1.6},
      {kLeaves, "", {0, 1}, 3e12, 1},
      {kLeaves, "", {3, 4, 5}, 3e12, 4.0 / 3},
  };
  for (const auto& [name, options, group, bandwidth, buffers] : cases) {
    SCOPED_TRACE(name + options);
    const Topology topology = topology_of(name);
    const auto schedule =
        synthesize({topology, nodes_of(group), Kind::kAllReduce}, "hierarchical" + options);
    ASSERT_TRUE(schedule) << schedule.error().message;
    EXPECT_TRUE(verify(*schedule, &topology).correct);
    EXPECT_NEAR(bandwidth / schedule->provenance.certificate.algbw_bytes_per_s, buffers, 1e-9);
  }
  const Topology topology = topology_of(kMesh);
  const auto best = synthesize({topology, {}, Kind::kAllReduce}, "hierarchical,shares=best");
  ASSERT_TRUE(best);
  EXPECT_NEAR(750e9 / best->provenance.certificate.algbw_bytes_per_s, 0.95, 0.001);
}

// No split is better than the best one, and every one is a schedule.
TEST(Hierarchical, TakesAnyShares) {
  Rng rng(11);
  for (const std::string name : {"mesh:4x5", "mesh:3x2x4", "torus:5x3", "torus:4x4", "mesh:7"}) {
    const Topology topology = topology_of(name);
    const auto parts = std::ranges::count_if(
        topology.grid(), [](const GridDimension& dimension) { return dimension.size > 1; });
    for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      const auto best = synthesize({topology, {}, collective}, "hierarchical,shares=best");
      ASSERT_TRUE(best) << best.error().message;
      for (int32_t round = 0; round < 6; ++round) {
        std::string shares = "1";
        for (int64_t part = 1; part < parts; ++part) {
          shares += "+" + std::to_string(rng.below(4));
        }
        SCOPED_TRACE(name + " " + std::string(to_text(collective)) + " " + shares);
        const auto schedule =
            synthesize({topology, {}, collective}, "hierarchical,shares=" + shares);
        ASSERT_TRUE(schedule) << schedule.error().message;
        const Verification verification = verify(*schedule, &topology);
        EXPECT_TRUE(verification.correct) << verification.violations.front();
        EXPECT_LE(schedule->provenance.certificate.algbw_bytes_per_s,
                  best->provenance.certificate.algbw_bytes_per_s * 1.003);
      }
    }
  }
}

// Groups of any ranks: of several sizes they are one level.
TEST(Hierarchical, TakesAnyGroup) {
  const struct {
    std::string topology;
    std::vector<int32_t> group;
  } cases[] = {
      {kMesh, {0, 7, 13}},          {kMesh, {19, 0, 3, 4, 11}},
      {kLeaves, {4, 3, 5}},         {kNarrow, {0, 1, 2, 3, 4, 5, 6}},
      {"dgx_h100:2", {0, 1, 2, 8}},
  };
  for (const auto& [name, group] : cases) {
    SCOPED_TRACE(name);
    const Topology topology = topology_of(name);
    for (const Kind collective : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
      const auto schedule = synthesize({topology, nodes_of(group), collective}, "hierarchical");
      ASSERT_TRUE(schedule) << schedule.error().message;
      EXPECT_TRUE(verify(*schedule, &topology).correct);
    }
  }
}

}  // namespace
}  // namespace pleach
