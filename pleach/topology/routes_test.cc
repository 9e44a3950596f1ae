#include "pleach/topology/routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/changes.h"
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

// A stripe takes another link where there are several that are alike, and no other.
TEST(Router, GivesEachStripeARouteOfItsOwn) {
  struct Case {
    std::string spec;
    int32_t source, target;
    int32_t ways;
    std::size_t routes;  // different ones of eight stripes
  };
  const std::vector<Case> cases = {
      {"mesh:4x4", 0, 1, 1, 1},
      {"torus:4x4", 0, 2, 2, 2},
      {"hypercube:8", 0, 7, 3, 6},
      {"dgx_h100:2,nics=3", 0, 8, 3, 3},  // card i to card i
      {"dgx_h100:2,nics=3", 0, 1, 1, 1},  // by the NVSwitch, although the cards are as near
      {"leaf_spine:2x4,spines=4", 0, 7, 1, 4},
      {"leaf_spine:2x4,spines=4,rails=2", 0, 7, 2, 4},
      {"leaf_spine:2x4,spines=4,rails=2", 0, 3, 2, 2},
      {"fully_connected:4", 0, 3, 1, 1},
      {"fully_connected:4", 0, 9, 0, 0},
  };
  for (const auto& [spec, source, target, ways, routes] : cases) {
    SCOPED_TRACE(fmt::format("{} {} {}", spec, source, target));
    const Result<Topology> topology = parse_topology(spec);
    ASSERT_TRUE(topology) << topology.error().message;
    Router router(*topology);
    EXPECT_EQ(router.ways_out(NodeId{source}, NodeId{target}), ways);
    std::set<std::vector<LinkId>> found;
    for (int32_t stripe = 0; stripe < 8 && routes > 0; ++stripe) {
      const auto route = router.route(NodeId{source}, NodeId{target}, stripe);
      ASSERT_TRUE(route);
      EXPECT_EQ(nodes_of(*topology, NodeId{source}, *route).back(), target);
      EXPECT_EQ(count_of(*route), router.distance(NodeId{source}, NodeId{target}));
      found.insert(*route);
    }
    EXPECT_EQ(found.size(), routes);
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

// The links that every pair of ranks takes under a seed: the most that one of them carries.
int64_t most_on_a_link(const std::string& spec, std::set<std::vector<LinkId>>& routes) {
  const Result<Topology> topology = parse_topology(spec);
  EXPECT_TRUE(topology) << spec;
  Router router(*topology);
  Router plain(*topology);
  std::vector<int64_t> load(topology->links().size());
  for (const NodeId source : topology->rank_nodes()) {
    for (const NodeId target : topology->rank_nodes()) {
      const auto route = router.route(source, target);
      EXPECT_TRUE(route);
      EXPECT_EQ(count_of(*route), router.distance(source, target));
      EXPECT_EQ(*plain.route(source, target), *route) << "not the same twice";
      nodes_of(*topology, source, *route);
      routes.insert(*route);
      for (const LinkId link : *route) {
        ++load[link.index()];
      }
    }
  }
  return *std::ranges::max_element(load);
}

// The spine that the target says, of eight: every cable down carries what its own ranks get.
TEST(Router, TakesTheSpineThatTheTargetSays) {
  const Topology topology = *parse_topology("fat_tree:64,routing=dmodk");
  Router router(topology);
  for (int32_t source = 0; source < 64; ++source) {
    for (int32_t target = 0; target < 64; ++target) {
      if (source / 8 == target / 8) {
        continue;
      }
      const auto route = router.route(NodeId{source}, NodeId{target});
      ASSERT_TRUE(route);
      ASSERT_EQ(route->size(), 4U);
      EXPECT_EQ(topology.node(topology.link(route->at(1)).target).name,
                "spine" + std::to_string(target % 8));
    }
  }
}

// Hashes collide: over seeds, the busiest link of an all_to_all carries more than its share of 8,
// now more, now less.
TEST(Router, HashesFlowsBySeed) {
  std::set<int64_t> loads;
  std::set<std::vector<LinkId>> routes;
  for (int seed = 0; seed < 40; ++seed) {
    const int64_t most =
        most_on_a_link("torus:4x4,routing=ecmp,seed=" + std::to_string(seed), routes);
    EXPECT_GE(most, 9) << seed;
    EXPECT_LE(most, 24) << seed;
    loads.insert(most);
  }
  EXPECT_GE(loads.size(), 4U);
  // Of the 240 pairs most have several ways; all of them are taken in the end.
  std::set<std::vector<LinkId>> first;
  most_on_a_link("torus:4x4", first);
  EXPECT_GT(routes.size(), 2 * first.size());
  EXPECT_EQ(most_on_a_link("torus:4x4,routing=ecmp,seed=3", first),
            most_on_a_link("torus:4x4,routing=ecmp,seed=3", first));
}

// 32 balls in 8 bins: a hash whose bits follow the numbers of the nodes would fill them evenly.
TEST(Router, HashesCollideOnRegularNetworksToo) {
  std::map<int64_t, int> seeds;  // by the most that a link carries, of 7 at least
  std::set<std::vector<LinkId>> routes;
  for (int seed = 0; seed < 100; ++seed) {
    ++seeds[most_on_a_link("leaf_spine:2x4,routing=ecmp,seed=" + std::to_string(seed), routes)];
  }
  EXPECT_EQ(seeds.begin()->first, 7);
  // Each of the 16 cables to spines carries more than 7 of 16 with probability 0.027.
  EXPECT_GT(seeds[7], 50);
  EXPECT_LT(seeds[7], 90);
}

TEST(Router, HashesOverParallelCables) {
  const Result<Topology> topology = parse_topology_toml(R"(
    routing = "ecmp"
    node = [{name="a", forwards=true}, {name="b", forwards=true}, {name="c", forwards=true},
            {name="d", forwards=true}]
    cable = [{source="a", target="b"}, {source="a", target="b"}, {source="b", target="c"},
             {source="b", target="c"}, {source="c", target="d"}, {source="c", target="d"},
             {source="d", target="a"}, {source="d", target="a"}]
  )",
                                                        "x.toml");
  ASSERT_TRUE(topology) << topology.error().message;
  std::set<int32_t> taken;
  for (int64_t seed = 0; seed < 20; ++seed) {
    const Topology seeded = with_routing(*topology, {RoutingKind::kEcmp, seed});
    Router router(seeded);
    for (int32_t node = 0; node < 4; ++node) {
      taken.insert(router.route(NodeId{node}, NodeId{(node + 1) % 4})->at(0).value);
    }
  }
  EXPECT_EQ(taken.size(), 8U);
}

}  // namespace
}  // namespace pleach
