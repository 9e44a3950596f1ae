#include "pleach/topology/spread_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

Topology topology_of(const std::string& text) {
  const bool is_spec = text.find('\n') == std::string::npos;
  Result<Topology> topology = is_spec ? parse_topology(text) : parse_topology_toml(text, "x.toml");
  EXPECT_TRUE(topology) << (topology ? "" : topology.error().message);
  return std::move(topology).value();
}

// Every rank to every other.
std::vector<Demand> all_pairs(const Topology& topology, int64_t load = 1) {
  std::vector<Demand> demands;
  for (const NodeId source : topology.rank_nodes()) {
    for (const NodeId target : topology.rank_nodes()) {
      if (source != target) {
        demands.push_back({source, target, load});
      }
    }
  }
  return demands;
}

// What links carry, by link; checks that each route is a shortest one of its demand.
std::vector<int64_t> loads(const Topology& topology, const std::vector<Demand>& demands,
                           const std::vector<std::vector<LinkId>>& routes) {
  Router router(topology);
  std::vector<int64_t> load(topology.links().size());
  EXPECT_EQ(routes.size(), demands.size());
  for (std::size_t index = 0; index < routes.size(); ++index) {
    NodeId node = demands[index].source;
    for (const LinkId link : routes[index]) {
      EXPECT_EQ(topology.link(link).source, node);
      node = topology.link(link).target;
      EXPECT_TRUE(node == demands[index].target || passes_through(topology.node(node)));
      load[link.index()] += demands[index].load;
    }
    EXPECT_EQ(node, demands[index].target);
    EXPECT_EQ(count_of(routes[index]), router.distance(demands[index].source, node));
  }
  return load;
}

std::vector<int64_t> spread_loads(const Topology& topology, const std::vector<Demand>& demands) {
  RouteSpreader spreader(topology, {});
  const auto routes = spreader.spread(demands, {});
  EXPECT_TRUE(routes) << (routes ? "" : routes.error().message);
  EXPECT_EQ(*RouteSpreader(topology, {}).spread(demands, {}), *routes) << "not the same twice";
  return loads(topology, demands, *routes);
}

// Two leaves of four ranks and four spines.
std::string leaf_spine(const std::string& more = "") {
  std::string text = "node = [";
  for (int rank = 0; rank < 8; ++rank) {
    text += "{name='h" + std::to_string(rank) + "'},";
  }
  for (const char* name : {"leaf0", "leaf1", "spine0", "spine1", "spine2", "spine3"}) {
    text += "{name='" + std::string(name) + "', kind='switch'},";
  }
  text += "]\ncable = [";
  for (int rank = 0; rank < 8; ++rank) {
    text +=
        "{source='h" + std::to_string(rank) + "', target='leaf" + std::to_string(rank / 4) + "'},";
  }
  for (int leaf = 0; leaf < 2; ++leaf) {
    for (int spine = 0; spine < 4; ++spine) {
      text += "{source='leaf" + std::to_string(leaf) + "', target='spine" + std::to_string(spine) +
              "'},";
    }
  }
  return text + more + "]\n";
}

TEST(SpreadRoutes, CarryTheSameEverywhereOnTori) {
  struct Case {
    std::string spec;
    int64_t load;  // of every link: the distances of all pairs over the links
  };
  // Along a ring of d, a rank's distances sum up to floor(d²/4).
  for (const auto& [spec, load] : std::vector<Case>{{"ring:5", 3},
                                                    {"ring:9", 10},
                                                    {"torus:4x4", 8},
                                                    {"torus:6x6", 27},
                                                    {"torus:8x8", 64},
                                                    {"torus:4x4x4", 32},
                                                    {"torus:3x3", 3}}) {
    const Topology topology = topology_of(spec);
    const std::vector<int64_t> carried = spread_loads(topology, all_pairs(topology));
    const int64_t slack = spec == "torus:4x4" ? 0 : 1;
    EXPECT_LE(*std::ranges::max_element(carried), load + slack) << spec;
    EXPECT_GE(*std::ranges::min_element(carried), load - slack) << spec;
  }
  // On an even ring the ways to the opposite rank balance to one: 8 of them over 4 links each, one
  // way or the other, over 16 links.
  const Topology ring = topology_of("ring:8");
  const std::vector<int64_t> carried = spread_loads(ring, all_pairs(ring));
  EXPECT_EQ(*std::ranges::max_element(carried), 8);
  EXPECT_EQ(*std::ranges::min_element(carried), 8);
}

TEST(SpreadRoutes, UseEverySpineAndEveryParallelCable) {
  const Topology plain = topology_of(leaf_spine());
  const std::vector<int64_t> carried = spread_loads(plain, all_pairs(plain));
  for (std::size_t link = 16; link < carried.size(); ++link) {
    EXPECT_EQ(carried[link], 4) << link;  // 16 pairs of either direction over 4 spines
  }
  // One spine has a second cable to each leaf: a fifth of the pairs for every cable.
  const Topology more = topology_of(
      leaf_spine("{source='leaf0', target='spine0'}, {source='leaf1', target='spine0'}"));
  const std::vector<int64_t> wider = spread_loads(more, all_pairs(more));
  for (std::size_t link = 16; link < wider.size(); ++link) {
    EXPECT_GE(wider[link], 3) << link;
    EXPECT_LE(wider[link], 4) << link;
  }
  const Topology pair = topology_of(
      "node = [{name='a'}, {name='b'}, {name='s', kind='switch'}]\n"
      "cable = [{source='a', target='s'}, {source='a', target='s'}, {source='b', target='s'},\n"
      "         {source='b', target='s'}]\n");
  const std::vector<Demand> demands = {{NodeId{0}, NodeId{1}, 5}, {NodeId{1}, NodeId{0}, 5}};
  EXPECT_EQ(std::ranges::count(spread_loads(pair, demands), 5), 4);
}

TEST(SpreadRoutes, GiveWiderLinksMore) {
  // Two ways from a to b, one three times as wide: of 8 demands it takes 6.
  const Topology topology = topology_of(R"(
    node = [{name="wide", kind="switch"}, {name="narrow", kind="switch"},
            {name="left", kind="switch"}, {name="right", kind="switch"},
            {name="a{i}", count={i=4}}, {name="b{i}", count={i=2}}]
    cable = [{source="left", target="wide", bandwidth="30GB/s"},
             {source="wide", target="right", bandwidth="30GB/s"},
             {source="left", target="narrow", bandwidth="10GB/s"},
             {source="narrow", target="right", bandwidth="10GB/s"},
             {source="a{i}", target="left", count={i=4}},
             {source="b{i}", target="right", count={i=2}}]
  )");
  std::vector<Demand> demands;
  for (int32_t source = 4; source < 8; ++source) {
    demands.push_back({NodeId{source}, NodeId{8}, 7});
    demands.push_back({NodeId{source}, NodeId{9}, 7});
  }
  const std::vector<int64_t> carried = spread_loads(topology, demands);
  EXPECT_EQ(carried[0], 6 * 7);
  EXPECT_EQ(carried[4], 2 * 7);
}

TEST(SpreadRoutes, CountWhatLinksCarryAnyway) {
  const Topology topology = topology_of(leaf_spine());
  // The cables of leaf 0 to spines 0 and 2 are taken.
  const std::vector<LinkLoad> fixed = {{LinkId{16}, 10}, {LinkId{20}, 10}};
  const std::vector<Demand> demands = {{NodeId{0}, NodeId{4}, 3}, {NodeId{1}, NodeId{5}, 3}};
  const auto routes = RouteSpreader(topology, {}).spread(demands, fixed);
  ASSERT_TRUE(routes);
  const std::vector<int64_t> carried = loads(topology, demands, *routes);
  EXPECT_EQ(carried[16], 0);
  EXPECT_EQ(carried[18], 3);
  EXPECT_EQ(carried[20], 0);
  EXPECT_EQ(carried[22], 3);
}

TEST(SpreadRoutes, SingleDemandsTakeTheDigitsOfTheirTargets) {
  // Groups that are planned apart, as those of data parallelism are, meet nowhere.
  const Topology topology = topology_of(leaf_spine());
  std::map<int32_t, int> uses;
  for (int32_t rank = 0; rank < 4; ++rank) {
    const std::vector<Demand> demands = {{NodeId{rank}, NodeId{rank + 4}, 1}};
    const auto routes = RouteSpreader(topology, {}).spread(demands, {});
    ASSERT_TRUE(routes);
    ++uses[(*routes)[0][1].value];
  }
  EXPECT_EQ(uses.size(), 4U);
}

TEST(SpreadRoutes, OneAfterTheOtherTakeTurns) {
  const Topology topology = topology_of(leaf_spine());
  RouteSpreader spreader(topology, {});
  std::map<int32_t, int> uses;
  for (int step = 0; step < 8; ++step) {
    const std::vector<Demand> demands = {{NodeId{0}, NodeId{4}, 1}};
    const auto routes = spreader.spread(demands, {});
    ASSERT_TRUE(routes);
    ++uses[(*routes)[0][1].value];
  }
  EXPECT_EQ(uses.size(), 4U);
  EXPECT_EQ(uses.begin()->second, 2);
}

TEST(SpreadRoutes, AreNoWorseThanTheFirstInLinkOrder) {
  constexpr uint64_t kSeed = 11;
  Rng rng(kSeed);
  int32_t better = 0, total = 0;
  for (const std::string spec : {"torus:4x6", "mesh:5x5", "torus:4x4,without_link=5-6",
                                 "torus:5x5,without_node=7", "torus:2x4x4"}) {
    const Topology topology = topology_of(spec);
    Router router(topology);
    for (int trial = 0; trial < 3; ++trial, ++total) {
      std::vector<Demand> demands;
      for (const Demand& demand : all_pairs(topology)) {
        if (rng.below(3) == 0) {
          demands.push_back(demand);
          demands.back().load = static_cast<int64_t>(1 + rng.below(4));
        }
      }
      std::vector<std::vector<LinkId>> first;
      for (const Demand& demand : demands) {
        first.push_back(*router.route(demand.source, demand.target));
      }
      const std::vector<int64_t> carried = spread_loads(topology, demands);
      const std::vector<int64_t> before = loads(topology, demands, first);
      const int64_t most = *std::ranges::max_element(carried);
      const int64_t most_before = *std::ranges::max_element(before);
      EXPECT_LE(most, most_before) << spec << ", seed " << kSeed << ", trial " << trial;
      better += most < most_before ? 1 : 0;
    }
  }
  EXPECT_GT(5 * better, 4 * total);
}

// Both ways within a box are two links long; seven messages over NVLink take less time than one
// over the card, however many links share the work.
TEST(SpreadRoutes, LeaveSlowLinksAloneThatWouldTakeLonger) {
  for (const std::string spec : {"dgx_h100:2", "dgx_h100:2,nics=2", "dgx_a100:2,fabric=rails"}) {
    const Topology topology = topology_of(spec);
    std::vector<Demand> demands;
    for (const Demand& demand : all_pairs(topology)) {
      if (demand.source.value / 8 == demand.target.value / 8) {
        demands.push_back(demand);
      }
    }
    std::vector<std::vector<LinkId>> first;
    Router router(topology);
    for (const Demand& demand : demands) {
      first.push_back(*router.route(demand.source, demand.target));
    }
    const auto longest_s = [&](const std::vector<int64_t>& carried) {
      double most = 0;
      for (std::size_t link = 0; link < carried.size(); ++link) {
        most =
            std::max(most, static_cast<double>(carried[link]) /
                               static_cast<double>(topology.links()[link].bandwidth_bytes_per_s));
      }
      return most;
    };
    EXPECT_LE(longest_s(spread_loads(topology, demands)),
              longest_s(loads(topology, demands, first)) * (1 + 1e-9))
        << spec;
  }
}

TEST(SpreadRoutes, NamePairsWithoutARoute) {
  const Topology topology = topology_of(
      "node = [{name='a'}, {name='b'}, {name='dead end', kind='switch'}]\n"
      "cable = [{source='a', target='b'}]\nlink = [{source='a', target='dead end'}]\n");
  const std::vector<Demand> demands = {{NodeId{2}, NodeId{0}, 1}};
  const auto routes = RouteSpreader(topology, {}).spread(demands, {});
  ASSERT_FALSE(routes);
  EXPECT_EQ(routes.error().message,
            "no route from 'dead end' to 'a': topology 'x' does not connect them");
}

}  // namespace
}  // namespace pleach
