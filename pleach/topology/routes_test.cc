#include "pleach/topology/routes.h"

#include <gtest/gtest.h>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

std::vector<int32_t> nodes_of(const Topology& topology, NodeId source,
                              const std::vector<LinkId>& route) {
  std::vector<int32_t> nodes = {source.value};
  for (const LinkId link : route) {
    EXPECT_EQ(topology.link(link).source.value, nodes.back());
    nodes.push_back(topology.link(link).target.value);
  }
  return nodes;
}

TEST(Router, TakesTheFirstDimensionFirst) {
  struct Case {
    std::string spec;
    int32_t source;
    int32_t target;
    std::vector<int32_t> nodes;
  };
  const std::vector<Case> cases = {
      {"mesh:4x4", 0, 10, {0, 4, 8, 9, 10}},
      {"mesh:4x4", 10, 0, {10, 6, 2, 1, 0}},
      {"mesh:4x4", 5, 5, {5}},
      {"torus:4x4", 0, 15, {0, 12, 15}},         // the short way around
      {"torus:4x4", 0, 10, {0, 12, 8, 11, 10}},  // a tie: minus comes before plus
      {"torus:5x5", 0, 12, {0, 5, 10, 11, 12}},
      {"mesh:2x2x2", 0, 7, {0, 4, 6, 7}},
      {"ring:6", 1, 5, {1, 0, 5}},
      {"switch:4", 0, 3, {0, 4, 3}},
      {"fully_connected:4", 3, 1, {3, 1}},
      {"torus:4x4,without_node=4", 0, 7, {0, 11, 7}},  // node 8 of before is 7 now
  };
  for (const auto& [spec, source, target, nodes] : cases) {
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology) << spec;
    Router router(*topology);
    const auto route = router.route(NodeId{source}, NodeId{target});
    ASSERT_TRUE(route) << spec;
    EXPECT_EQ(nodes_of(*topology, NodeId{source}, *route), nodes) << spec;
    EXPECT_EQ(router.distance(NodeId{source}, NodeId{target}), count_of(nodes) - 1);
  }
}

TEST(Router, AvoidsHostsThatDoNotForward) {
  // a - b - c and a - s - t - c: b is nearer but no way through.
  const Result<Topology> topology = parse_topology_toml(R"(
    node = [{name="a"}, {name="b"}, {name="c"}, {name="s", kind="switch"}, 
            {name="t", kind="io", forwards=true}]
    cable = [{source="a", target="b"}, {source="b", target="c"}, {source="a", target="s"},
             {source="s", target="t"}, {source="t", target="c"}]
  )",
                                                        "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  Router router(*topology);
  const auto route = router.route(NodeId{0}, NodeId{2});
  ASSERT_TRUE(route);
  EXPECT_EQ(nodes_of(*topology, NodeId{0}, *route), (std::vector<int32_t>{0, 3, 4, 2}));
  EXPECT_EQ(router.distance(NodeId{0}, NodeId{2}), 3);
}

TEST(Router, NamesNodesWithoutARoute) {
  const Result<Topology> topology = parse_topology_toml(R"(
    node = [{name="a"}, {name="b"}, {name="dead end", kind="switch"}]
    cable = [{source="a", target="b"}]
    link = [{source="a", target="dead end"}]
  )",
                                                        "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  Router router(*topology);
  EXPECT_EQ(router.route(NodeId{2}, NodeId{0}).error().message,
            "no route from 'dead end' to 'a': topology 'x' does not connect them");
  EXPECT_EQ(router.route(NodeId{2}, NodeId{0}).error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(router.distance(NodeId{2}, NodeId{0}), -1);
  EXPECT_EQ(router.route(NodeId{0}, NodeId{3}).error().message,
            "no route from node 0 to node 3: topology 'x' has no node 3");
  EXPECT_FALSE(router.route(NodeId{}, NodeId{0}));
  EXPECT_EQ(router.distance(NodeId{-7}, NodeId{0}), -1);
}

// Routes are as long as the distance, and every hop on them is the first in link order that gets
// nearer.
TEST(Router, RoutesAreShortestAndFirst) {
  constexpr uint64_t kSeed = 3;
  Rng rng(kSeed);
  for (const std::string spec : {"torus:5x4x3", "mesh:6x5", "ring:9", "examples"}) {
    const Result<Topology> topology =
        parse_topology(spec == "examples" ? "torus:6x6,without_node=7+8,without_link=0-1" : spec);
    ASSERT_TRUE(topology);
    Router router(*topology);
    const auto count = static_cast<uint64_t>(topology->nodes().size());
    for (int trial = 0; trial < 200; ++trial) {
      const NodeId source{static_cast<int32_t>(rng.below(count))};
      const NodeId target{static_cast<int32_t>(rng.below(count))};
      const auto route = router.route(source, target);
      ASSERT_TRUE(route);
      const int32_t distance = router.distance(source, target);
      ASSERT_EQ(static_cast<int32_t>(route->size()), distance) << "seed " << kSeed;
      NodeId node = source;
      for (const LinkId taken : *route) {
        for (const LinkId link : topology->links_out(node)) {
          if (router.distance(topology->link(link).target, target) <
              router.distance(node, target)) {
            EXPECT_EQ(link, taken) << spec << " seed " << kSeed;
            break;
          }
        }
        node = topology->link(taken).target;
      }
      EXPECT_EQ(node, target);
    }
  }
}

}  // namespace
}  // namespace pleach
