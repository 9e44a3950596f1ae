#include "pleach/topology/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/changes.h"
#include "pleach/topology/shapes.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

TEST(Metrics, SayWhetherTheyAreExact) {
  struct Case {
    std::string spec;
    int64_t bytes_per_s;
    bool exact_bisection;
    int32_t diameter;
    bool exact_diameter;
  };
  constexpr int64_t kLink = 16'000'000'000;
  const std::vector<Case> cases = {
      {"ring:14", 2 * kLink, true, 7, true},
      {"ring:15", 2 * kLink, true, 7, true},
      {"torus:2x7", 5 * kLink, true, 4, true},
      {"mesh:2x20", 2 * kLink, true, 20, true},
      {"torus:16x4", 8 * kLink, true, 10, true},
      {"switch:13", 6 * kLink, true, 2, true},
      {"mesh:5x5", 5 * kLink + kLink, true, 8, true},
      {"mesh:5x4", 4 * kLink + kLink, true, 7, true},
      {"mesh:3x4x5", (12 + 3) * kLink, true, 9, true},
      {"torus:3x4x5", 2 * (12 + 3) * kLink, true, 5, true},
      {"mesh:7x7x7", (49 + 7 + 1) * kLink, true, 18, true},
      {"torus:65x64", 2 * (64 + 1) * kLink, true, 64, true},
      {"torus:2x2x5", 10 * kLink, false, 4, true},
      {"torus:2x2x2x2", 8 * kLink, true, 4, true},
      {"torus:8x8x2", 16 * kLink * 2, true, 9, true},
      {"fully_connected:31", 15 * 16 * kLink, true, 1, true},
      {"switch:100", 50 * kLink, true, 2, true},
      {"switch:40000", 20'000 * kLink, true, 2, true},

      {"ring:8,without_link=0>1", kLink, true, 7, true},  // one way is narrower
  };
  for (const auto& [spec, bytes_per_s, exact_bisection, links, exact_diameter] : cases) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology) << topology.error().message;
    const Bisection halves = bisection(*topology);
    EXPECT_EQ(halves.bytes_per_s, bytes_per_s) << spec;
    EXPECT_EQ(halves.exact, exact_bisection) << spec;
    EXPECT_EQ(diameter(*topology).link_count, links) << spec;
    EXPECT_EQ(diameter(*topology).exact, exact_diameter) << spec;
  }
}

// All halves, and the links from one to the other; the narrower way.
int64_t narrowest_cut(const Topology& topology) {
  const auto rank_count = static_cast<int32_t>(topology.rank_nodes().size());
  int64_t narrowest = INT64_MAX;
  for (uint32_t set = 0; set < (uint32_t{1} << rank_count); ++set) {
    if (std::popcount(set) == rank_count / 2 || std::popcount(set) == (rank_count + 1) / 2) {
      int64_t cut = 0;
      for (const Link& link : topology.links()) {
        const bool crosses = (set >> link.source.value & 1) > (set >> link.target.value & 1);
        cut += crosses ? link.bandwidth_bytes_per_s : 0;
      }
      narrowest = std::min(narrowest, cut);
    }
  }
  return narrowest;
}

// Beyond 14 ranks; bandwidths by dimension or by link.
TEST(Metrics, BisectionsCalledExactAreThoseOfAllHalves) {
  Rng rng(5);
  int32_t exact = 0;
  for (const char* spec :
       {"mesh:16",   "ring:15",       "ring:16",  "ring:17",   "mesh:4x4",
        "torus:4x4", "torus:2x2x2x2", "mesh:3x5", "torus:5x3", "mesh:2x8",
        "torus:8x2", "torus:2x3x3",   "mesh:6x3", "torus:6x3", "fully_connected:15",
        "torus:9x2", "torus:2x9",     "mesh:5x4", "torus:5x4", "torus:2x2x5"}) {
    for (int32_t round = 0; round < 3; ++round) {
      SCOPED_TRACE(testing::Message() << spec << ", round " << round);
      Topology topology = support::topology_of(spec);
      const int64_t bandwidths[] = {10, 10 + static_cast<int64_t>(rng.below(30)), 25, 7};
      for (int32_t index = 0; index < count_of(topology.links()) && round > 0; ++index) {
        const Link& link = topology.link(LinkId{index});
        const auto apart = at(std::abs(link.source.value - link.target.value));
        const int64_t bandwidth =
            round == 1 ? bandwidths[apart == 1 ? 0 : 1] : bandwidths[rng.below(4)];
        const LinkId changed[] = {LinkId{index}};
        topology = *with_bandwidth(topology, changed, bandwidth);
      }
      const Bisection found = bisection(topology);
      const int64_t narrowest = narrowest_cut(topology);
      EXPECT_GE(found.bytes_per_s, narrowest);
      if (found.exact) {
        EXPECT_EQ(found.bytes_per_s, narrowest);
        ++exact;
      }
    }
  }
  EXPECT_GE(exact, 15);
}

TEST(Metrics, KnowsTheBisectionOfMeshesAndTori) {
  for (const char* spec :
       {"mesh:19",    "ring:19",    "ring:20",    "mesh:3x5",   "mesh:5x3",   "torus:3x5",
        "torus:5x3",  "mesh:2x8",   "mesh:4x4",   "torus:4x4",  "mesh:2x2x4", "mesh:2x2x2x2",
        "mesh:2x9",   "mesh:9x2",   "mesh:3x6",   "mesh:6x3",   "torus:3x6",  "torus:6x3",
        "mesh:2x3x3", "mesh:3x2x3", "mesh:3x3x2", "mesh:4x5",   "mesh:5x4",   "torus:4x5",
        "torus:5x4",  "mesh:2x10",  "mesh:2x2x5", "mesh:5x2x2", "mesh:2x5x2", "mesh:5x1x4"}) {
    const Topology topology = support::topology_of(spec);
    const Bisection found = bisection(topology);
    EXPECT_EQ(found.bytes_per_s, narrowest_cut(topology)) << spec;
    EXPECT_TRUE(found.exact) << spec;
  }
}

TEST(Metrics, SwitchesFallWhereTheCutIsNarrow) {
  // Two groups of two, a switch each, and one cable between the switches.
  const Result<Topology> topology = parse_topology_toml(R"(
    node = [{name="a"}, {name="b"}, {name="c"}, {name="d"}, {name="s", kind="switch"},
            {name="t", kind="switch"}]
    cable = [{source="a", target="s"}, {source="b", target="s"}, {source="c", target="t"},
             {source="d", target="t"}, {source="s", target="t", bandwidth="10GB/s"}]
  )",
                                                        "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  EXPECT_EQ(bisection(*topology).bytes_per_s, 10'000'000'000);
  EXPECT_EQ(diameter(*topology).link_count, 3);
}

// The least capacity of a cut per rank on its smaller side, times half of the ranks, over all sets.
int64_t proportional_by_all_sets(const Topology& topology) {
  const int32_t nodes = count_of(topology.nodes());
  const auto ranks = static_cast<int64_t>(topology.rank_nodes().size());
  int64_t least = INT64_MAX;
  for (uint32_t set = 0; set < (uint32_t{1} << nodes); ++set) {
    const auto holds = [set](NodeId node) { return (set >> node.value & 1) != 0; };
    const int64_t inside = std::ranges::count_if(topology.rank_nodes(), holds);
    int64_t out = 0, in = 0;
    for (const Link& link : topology.links()) {
      if (holds(link.source) != holds(link.target)) {
        (holds(link.source) ? out : in) += link.bandwidth_bytes_per_s;
      }
    }
    if (inside > 0 && inside < ranks) {
      least = std::min(least, std::min(out, in) * (ranks / 2) / std::min(inside, ranks - inside));
    }
  }
  return least;
}

int64_t proportional(const std::string& spec) {
  const Result<Topology> topology = parse_topology(spec);
  EXPECT_TRUE(topology) << spec;
  return proportional_bisection(*topology, bisection(*topology));
}

// Random trees of switches, with ranks and links of any width, are known exactly.
TEST(Metrics, ProportionalBisectionsOfTreesAreLeastOfAllSets) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    TopologyBuilder builder("tree");
    const auto switches = static_cast<int32_t>(1 + rng.below(4));
    const auto ranks = static_cast<int32_t>(2 + rng.below(6));
    for (int32_t node = 0; node < switches + ranks; ++node) {
      Node one;
      one.kind = node < switches ? NodeKind::kSwitch : NodeKind::kRank;
      ASSERT_TRUE(builder.add_node(one));
    }
    for (int32_t node = 1; node < switches + ranks; ++node) {
      const auto above =
          static_cast<int32_t>(rng.below(static_cast<uint64_t>(std::min(node, switches))));
      for (uint64_t cable = 0; cable < 1 + rng.below(2); ++cable) {
        for (const auto& [source, target] : {std::pair(node, above), std::pair(above, node)}) {
          ASSERT_TRUE(builder.add_link(
              {NodeId{source}, NodeId{target}, static_cast<int64_t>(1 + rng.below(9)) * 1'000}));
        }
      }
    }
    const Result<Topology> tree = std::move(builder).build();
    ASSERT_TRUE(tree);
    EXPECT_EQ(proportional_bisection(*tree, bisection(*tree)), proportional_by_all_sets(*tree))
        << "round " << round;
  }
}

TEST(Metrics, BisectionsInProportionToNarrowParts) {
  constexpr int64_t kTerabyte = 1'000'000'000'000;
  EXPECT_EQ(proportional("wafer_mesh:5x4"), 3 * kTerabyte + 3 * kTerabyte / 4);
  EXPECT_EQ(proportional("fred:A"), 3 * kTerabyte + 3 * kTerabyte / 4);
  EXPECT_EQ(proportional("fred:B"), 3 * kTerabyte + 3 * kTerabyte / 4);
  EXPECT_EQ(proportional("fred:C"), 30 * kTerabyte);
  EXPECT_EQ(proportional("fred:D"), 30 * kTerabyte);
  EXPECT_EQ(proportional("fred:A,view=plane"), 3 * kTerabyte / 4);
  // Where the narrowest part is a half, it is the bisection; I/O counts for nothing.
  for (const std::string spec : {"ring:9", "torus:4x4", "mesh:4x4", "wafer_mesh:4x4", "fat_tree:64",
                                 "leaf_spine:2x4", "switch:7", "fred:A,npus=16", "ring:65536"}) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology);
    EXPECT_EQ(proportional(spec), bisection(*topology).bytes_per_s) << spec;
  }
}

// Rounded to units that fit beside a link of 2^62, the cable to b would be 32 wide.
TEST(Metrics, ClaimNothingThatRoundingDecides) {
  TopologyBuilder builder("wide");
  for (const NodeKind kind :
       {NodeKind::kRank, NodeKind::kRank, NodeKind::kSwitch, NodeKind::kSwitch}) {
    Node node;
    node.kind = kind;
    ASSERT_TRUE(builder.add_node(node));
  }
  ASSERT_TRUE(builder.add_cable({NodeId{0}, NodeId{2}, int64_t{1} << 62, 0}));
  ASSERT_TRUE(builder.add_cable({NodeId{1}, NodeId{2}, 30, 0}));
  ASSERT_TRUE(builder.add_cable({NodeId{0}, NodeId{3}, 1, 0}));
  ASSERT_TRUE(builder.add_cable({NodeId{1}, NodeId{3}, 1, 0}));
  const Result<Topology> topology = std::move(builder).build();
  ASSERT_TRUE(topology);
  EXPECT_EQ(bisection(*topology).bytes_per_s, 31);
  EXPECT_FALSE(bisection(*topology).exact);
}

TEST(Metrics, OneRankHasNothingToCut) {
  const Result<Topology> topology = parse_topology_toml("node = [{name='a'}]", "x.toml");
  ASSERT_TRUE(topology);
  EXPECT_EQ(bisection(*topology).bytes_per_s, 0);
  EXPECT_EQ(diameter(*topology).link_count, 0);
}

}  // namespace
}  // namespace pleach
