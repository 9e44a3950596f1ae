#include "pleach/topology/metrics.h"

#include <gtest/gtest.h>

#include "pleach/topology/shapes.h"

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
      {"ring:15", 2 * kLink, false, 7, true},
      {"torus:2x7", 5 * kLink, true, 4, true},
      {"mesh:2x20", 2 * kLink, false, 20, true},
      {"torus:16x4", 8 * kLink, false, 10, true},
      {"switch:13", 6 * kLink, true, 2, true},
      {"switch:100", 50 * kLink, false, 2, true},
      {"switch:40000", 20'000 * kLink, false, 2, false},

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

// Rounded to units that fit beside a link of 2^62, the cable to b would be 32 wide.
TEST(Metrics, ClaimNothingThatRoundingDecides) {
  TopologyBuilder builder("wide");
  for (const NodeKind kind : {NodeKind::kRank, NodeKind::kRank, NodeKind::kSwitch}) {
    Node node;
    node.kind = kind;
    ASSERT_TRUE(builder.add_node(node));
  }
  ASSERT_TRUE(builder.add_cable({NodeId{0}, NodeId{2}, int64_t{1} << 62, 0}));
  ASSERT_TRUE(builder.add_cable({NodeId{1}, NodeId{2}, 31, 0}));
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
