#include "pleach/topology/link_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "pleach/topology/metrics.h"
#include "pleach/topology/shapes.h"
#include "tests/support/random_tree.h"

namespace pleach {
namespace {

std::optional<LinkTree> tree_of(const std::string& spec) {
  const Topology topology = parse_topology(spec).value();
  return link_tree(topology, std::vector<bool>(topology.nodes().size(), true));
}

TEST(LinkTree, IsOneWhereNoLinksCloseACircle) {
  for (const char* spec : {"switch:5", "switch_tree:3x4", "fred:D", "ring:2", "mesh:7",
                           "ring:7,without_link=0-6", "twin_switch:4"}) {
    EXPECT_TRUE(tree_of(spec)) << spec;
  }
  for (const char* spec : {"ring:3", "torus:4x4", "mesh:2x2", "fat_tree:64", "wafer_mesh:2x2"}) {
    EXPECT_FALSE(tree_of(spec)) << spec;
  }
}

TEST(LinkTree, AddsUpTheLinksOfAnEdge) {
  Rng rng(3);
  for (int32_t round = 0; round < 200; ++round) {
    const Topology topology = support::random_tree(1 + static_cast<int32_t>(rng.below(4)),
                                                   2 + static_cast<int32_t>(rng.below(5)), rng);
    const auto tree = link_tree(topology, std::vector<bool>(topology.nodes().size(), true));
    ASSERT_TRUE(tree);
    EXPECT_EQ(tree->order.size(), topology.nodes().size());
    for (const int32_t node : tree->order) {
      const std::vector<bool> below = tree->below(node);
      int64_t out = 0, in = 0;
      for (const Link& link : topology.links()) {
        if (below[link.source.index()] != below[link.target.index()]) {
          (below[link.source.index()] ? out : in) += link.bandwidth_bytes_per_s;
        }
      }
      EXPECT_EQ(tree->up[at(node)], out);
      EXPECT_EQ(tree->down[at(node)], in);
    }
  }
}

// Every side for every node, and the way between every two, agree.
TEST(LinkTree, HasTheBisectionAndDiameterOfABruteForce) {
  Rng rng(4);
  for (int32_t round = 0; round < 150; ++round) {
    const int32_t switches = 1 + static_cast<int32_t>(rng.below(4));
    const int32_t ranks = 2 + static_cast<int32_t>(rng.below(6));
    const Topology topology = support::random_tree(switches, ranks, rng);
    const auto nodes = static_cast<uint32_t>(switches + ranks);
    int64_t narrowest = std::numeric_limits<int64_t>::max();
    for (uint32_t first = 0; first < (1U << nodes); ++first) {
      const auto is_first = [first](NodeId node) { return (first >> node.value & 1) != 0; };
      const auto count = std::ranges::count_if(topology.rank_nodes(), is_first);
      if (count != ranks / 2 && count != (ranks + 1) / 2) {
        continue;
      }
      int64_t out = 0;
      for (const Link& link : topology.links()) {
        out += is_first(link.source) && !is_first(link.target) ? link.bandwidth_bytes_per_s : 0;
      }
      narrowest = std::min(narrowest, out);
    }
    EXPECT_EQ(bisection(topology).bytes_per_s, narrowest);
    EXPECT_TRUE(bisection(topology).exact);
    std::vector<std::vector<int32_t>> away(nodes, std::vector<int32_t>(nodes, 1000));
    for (const Link& link : topology.links()) {
      away[link.source.index()][link.target.index()] = 1;
    }
    for (std::size_t middle = 0; middle < nodes; ++middle) {
      for (std::size_t source = 0; source < nodes; ++source) {
        for (std::size_t target = 0; target < nodes; ++target) {
          away[source][target] =
              std::min(away[source][target], away[source][middle] + away[middle][target]);
        }
      }
    }
    int32_t farthest = 0;
    for (const NodeId source : topology.rank_nodes()) {
      for (const NodeId target : topology.rank_nodes()) {
        farthest = std::max(farthest, source == target ? 0 : away[source.index()][target.index()]);
      }
    }
    EXPECT_EQ(diameter(topology).link_count, farthest);
    EXPECT_TRUE(diameter(topology).exact);
  }
}

TEST(LinkTree, LetsTheLargestTreesBeMeasured) {
  for (const auto& [spec, links] :
       {std::pair("switch:65536", 2), std::pair("switch_tree:65536x1", 4),
        std::pair("switch_tree:256x256", 4)}) {
    const Topology topology = parse_topology(spec).value();
    EXPECT_EQ(diameter(topology).link_count, links) << spec;
    EXPECT_TRUE(diameter(topology).exact) << spec;
  }
}

}  // namespace
}  // namespace pleach
