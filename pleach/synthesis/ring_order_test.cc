#include "pleach/synthesis/ring_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/routes.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

std::vector<int32_t> coordinates(std::span<const GridDimension> grid, int32_t node) {
  std::vector<int32_t> digits;
  for (std::size_t k = grid.size(); k-- > 0;) {
    digits.push_back(node % grid[k].size);
    node /= grid[k].size;
  }
  std::reverse(digits.begin(), digits.end());
  return digits;
}

bool are_neighbours(std::span<const GridDimension> grid, int32_t left, int32_t right) {
  const std::vector<int32_t> from = coordinates(grid, left), to = coordinates(grid, right);
  int32_t distance = 0;
  for (std::size_t k = 0; k < grid.size(); ++k) {
    const int32_t direct = std::abs(from[k] - to[k]);
    distance += grid[k].wraps ? std::min(direct, grid[k].size - direct) : direct;
  }
  return distance == 1;
}

int32_t node_count(std::span<const GridDimension> grid) {
  return std::accumulate(
      grid.begin(), grid.end(), 1,
      [](int32_t product, const GridDimension& dimension) { return product * dimension.size; });
}

void expect_visits_all(const std::vector<int32_t>& order, int32_t count) {
  std::vector<int32_t> sorted = order;
  std::ranges::sort(sorted);
  std::vector<int32_t> expected(at(count));
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(sorted, expected);
}

TEST(GridCycle, IsTheBoustrophedonOfTheReference) {
  const std::vector<GridDimension> grid = {{4, false}, {4, false}};
  const std::vector<int32_t> expected = {0, 1, 2, 3, 7, 11, 15, 14, 10, 6, 5, 9, 13, 12, 8, 4};
  EXPECT_EQ(grid_cycle(grid), expected);
}

// Every grid of up to three dimensions of 1 to 6 nodes, each wrapping or not.
TEST(GridCycle, ExistsExactlyWhenAGridHasOne) {
  for (int32_t code = 0; code < 12 * 12 * 12; ++code) {
    std::vector<GridDimension> grid;
    for (int32_t rest = code, k = 0; k < 3; ++k, rest /= 12) {
      grid.push_back({rest % 6 + 1, rest % 12 >= 6});
    }
    SCOPED_TRACE(code);
    const int32_t count = node_count(grid);
    const auto extended = std::ranges::count_if(
        grid, [](const GridDimension& dimension) { return dimension.size > 1; });
    const bool wraps = std::ranges::any_of(
        grid, [](const GridDimension& dimension) { return dimension.wraps && dimension.size > 2; });
    const bool expected =
        extended == 1 ? wraps || count == 2 : extended > 1 && (count % 2 == 0 || wraps);
    const auto cycle = grid_cycle(grid);
    EXPECT_EQ(cycle.has_value(), expected);
    if (cycle) {
      expect_visits_all(*cycle, count);
      for (std::size_t k = 0; k < cycle->size(); ++k) {
        EXPECT_TRUE(are_neighbours(grid, (*cycle)[k], (*cycle)[(k + 1) % cycle->size()])) << k;
      }
    }
    const std::vector<int32_t> snake = grid_snake(grid);
    expect_visits_all(snake, count);
    for (std::size_t k = 1; k < snake.size(); ++k) {
      EXPECT_TRUE(are_neighbours(grid, snake[k - 1], snake[k])) << k;
    }
  }
}

struct SearchCase {
  std::string topology;
  std::vector<int32_t> participants;  // empty: all
  int32_t detour_count;               // neighbours in the ring without a direct link
};

class RingOrder : public testing::TestWithParam<SearchCase> {};

TEST_P(RingOrder, FollowsLinksWhereItCan) {
  const auto topology = parse_topology(GetParam().topology);
  ASSERT_TRUE(topology) << topology.error().message;
  std::vector<NodeId> participants(topology->rank_nodes().begin(), topology->rank_nodes().end());
  if (!GetParam().participants.empty()) {
    participants.clear();
    for (const int32_t node : GetParam().participants) {
      participants.push_back(NodeId{node});
    }
  }
  const std::vector<int32_t> order = ring_order(*topology, participants);
  expect_visits_all(order, count_of(participants));
  int32_t detour_count = 0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const NodeId source = participants[at(order[k])];
    const NodeId target = participants[at(order[(k + 1) % order.size()])];
    detour_count += std::ranges::none_of(topology->links_out(source), [&](LinkId link) {
      return topology->link(link).target == target;
    });
  }
  EXPECT_EQ(detour_count, GetParam().detour_count);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, RingOrder,
    testing::Values(SearchCase{"torus:4x4", {}, 0},   //
                    SearchCase{"torus:5x7", {}, 0},   // odd by odd, wrapping
                    SearchCase{"mesh:3x3", {}, 1},    // no cycle: closed by a detour
                    SearchCase{"mesh:5", {}, 1},      //
                    SearchCase{"mesh:2x3x5", {}, 0},  //
                    SearchCase{"torus:4x4,without_link=0-1", {}, 0},    // found by search
                    SearchCase{"torus:8x8,without_link=27-28", {}, 0},  //
                    SearchCase{"torus:5x5,without_node=12", {}, 0},     //
                    SearchCase{"mesh:4x4,without_link=1-2", {}, 0},     //
                    SearchCase{"torus:4x4", {5, 1, 0, 4}, 0},           // a square, in a bad order
                    SearchCase{"mesh:4x4", {10, 5, 6, 9, 1, 2}, 0},     //
                    SearchCase{"fully_connected:7", {}, 0},             //
                    SearchCase{"mesh:4x4", {0, 3, 12, 15}, 4},          // no links between them
                    SearchCase{"switch:5", {}, 5}));                    // no links between ranks

TEST(RingOrder, IsTheSameRingUnderEveryNumberingOfRanks) {
  const auto topology = parse_topology("torus:4x4,without_link=0-1");
  ASSERT_TRUE(topology) << topology.error().message;
  std::vector<NodeId> participants(topology->rank_nodes().begin(), topology->rank_nodes().end());
  const std::vector<int32_t> order = ring_order(*topology, participants);
  std::reverse(participants.begin(), participants.end());
  std::vector<int32_t> reversed_order = ring_order(*topology, participants);
  for (int32_t& rank : reversed_order) {
    rank = 15 - rank;
  }
  EXPECT_EQ(reversed_order, order);
}

TEST(NaturalRing, IsARingAndNothingElse) {
  const std::pair<const char*, bool> cases[] = {{"ring:2", true},
                                                {"ring:3", true},
                                                {"ring:8", true},
                                                {"ring:8,without_link=0-1", false},
                                                {"mesh:4", false},
                                                {"torus:4x4", false},
                                                {"fully_connected:4", false}};
  for (const auto& [spec, expected] : cases) {
    const auto topology = parse_topology(spec);
    ASSERT_TRUE(topology) << topology.error().message;
    EXPECT_EQ(is_natural_ring(*topology, topology->rank_nodes()), expected) << spec;
  }
  const auto ring = parse_topology("ring:4");
  ASSERT_TRUE(ring);
  const std::vector<NodeId> rotated = {{1}, {2}, {3}, {0}}, shuffled = {{0}, {2}, {1}, {3}};
  EXPECT_TRUE(is_natural_ring(*ring, rotated));
  EXPECT_FALSE(is_natural_ring(*ring, shuffled));
}

// Where only switches join the ranks: box by box, so that one link of a box carries what leaves it.
TEST(RingOrder, GoesBoxByBoxAndKeepsToRails) {
  const Topology boxes = *parse_topology("dgx_h100:3");
  // Ranks that alternate between the boxes.
  std::vector<NodeId> participants;
  for (int32_t gpu = 0; gpu < 4; ++gpu) {
    for (int32_t box = 0; box < 3; ++box) {
      participants.push_back(NodeId{8 * box + gpu});
    }
  }
  std::vector<int32_t> nodes;
  for (const int32_t rank : ring_order(boxes, participants)) {
    nodes.push_back(participants[at(rank)].value);
  }
  EXPECT_EQ(nodes, (std::vector<int32_t>{0, 1, 2, 3, 11, 10, 9, 8, 16, 17, 18, 19}));
  // Routers keep the order of ranks.
  const Topology mesh = *parse_topology("mesh:4x4");
  const std::vector<NodeId> pairs = {NodeId{0}, NodeId{10}, NodeId{1}, NodeId{11}};
  EXPECT_EQ(ring_order(mesh, pairs), (std::vector<int32_t>{0, 1, 2, 3}));
  // Nothing to tell ranks apart: their own order.
  const Topology hub = *parse_topology("switch:5");
  EXPECT_EQ(ring_order(hub, hub.rank_nodes()), (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

// By link, how often the ring of these participants passes it.
std::map<LinkId, int32_t> passes_of_ring(const Topology& topology,
                                         const std::vector<NodeId>& participants) {
  const std::vector<int32_t> order = ring_order(topology, participants);
  expect_visits_all(order, count_of(participants));
  std::map<LinkId, int32_t> passes;
  Router router(topology);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const int32_t next = order[(place + 1) % order.size()];
    const auto route = router.route(participants[at(order[place])], participants[at(next)]);
    EXPECT_TRUE(route);
    for (const LinkId link : *route) {
      ++passes[link];
    }
  }
  return passes;
}

// Whoever takes part, in whatever order: no link of a tree carries the ring twice.
TEST(RingOrder, PassesEachTrunkOfATreeOnceAWay) {
  for (const char* spec : {"fred:A", "fred:C", "fred:C,npus=27,radix=3,levels=3",
                           "switch_tree:4x3x2,taper=2", "fat_tree:64"}) {
    const Topology tree = *parse_topology(spec);
    for (uint64_t seed = 0; seed < 60; ++seed) {
      SCOPED_TRACE(testing::Message() << spec << ", seed " << seed);
      Rng rng(seed);
      std::vector<NodeId> participants(tree.rank_nodes().begin(), tree.rank_nodes().end());
      for (std::size_t place = participants.size(); place-- > 1;) {
        std::swap(participants[place], participants[rng.below(place + 1)]);
      }
      participants.resize(2 + rng.below(participants.size() - 1));
      for (const auto& [link, count] : passes_of_ring(tree, participants)) {
        EXPECT_EQ(count, 1) << tree.node(tree.link(link).source).name << " to "
                            << tree.node(tree.link(link).target).name;
      }
    }
  }
}

TEST(RingOrder, GoesAroundSwitchesAsPublished) {
  const auto order = [](const std::string& spec) {
    const Topology topology = *parse_topology(spec);
    return published_ring_order(topology, topology.rank_nodes());
  };
  const auto begins = [](std::vector<int32_t> all, const std::vector<int32_t>& first) {
    all.resize(first.size());
    return all == first;
  };
  EXPECT_TRUE(begins(order("fat_tree:64"), {0, 8, 16, 24, 32, 40, 48, 56, 1, 9}));
  EXPECT_TRUE(begins(order("bigraph:4x8"), {0, 16, 4, 20, 8, 24, 12, 28, 1, 21, 13, 17, 9, 29}));
  // Elsewhere, with more ranks on a switch than switches in a half, and where steps of 3 in a half
  // of 3 come to one switch only: the usual order.
  for (const std::string spec :
       {"torus:4x4", "switch:5", "bigraph:4x4", "bigraph:3x6", "twin_switch:16", "dgx_h100:2"}) {
    const Topology topology = *parse_topology(spec);
    EXPECT_EQ(order(spec), ring_order(topology, topology.rank_nodes())) << spec;
  }
}

}  // namespace
}  // namespace pleach
