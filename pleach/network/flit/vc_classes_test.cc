#include "pleach/network/flit/vc_classes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using Routes = std::vector<std::vector<LinkId>>;

LinkId link_between(const Topology& topology, int32_t source, int32_t target) {
  for (const LinkId link : topology.links_out(NodeId{source})) {
    if (topology.link(link).target == NodeId{target}) {
      return link;
    }
  }
  ADD_FAILURE() << "no link from " << source << " to " << target;
  return {};
}

std::vector<LinkId> route(const Topology& topology, const std::vector<int32_t>& nodes) {
  std::vector<LinkId> links;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    links.push_back(link_between(topology, nodes[i - 1], nodes[i]));
  }
  return links;
}

// No channel (link and class) leads to itself by way of those that routes wait for next.
bool is_without_circle(const Routes& routes, const VcClasses& classes) {
  using Channel = std::pair<int32_t, int32_t>;
  std::map<Channel, std::set<Channel>> next;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    for (std::size_t hop = 1; hop < routes[i].size(); ++hop) {
      next[{routes[i][hop - 1].value, classes.class_of[i][hop - 1]}].insert(
          {routes[i][hop].value, classes.class_of[i][hop]});
    }
  }
  std::map<Channel, int32_t> state;  // 1: on the way, 2: done
  const std::function<bool(Channel)> visit = [&](const Channel& channel) {
    int32_t& mine = state[channel];
    if (mine != 0) {
      return mine == 2;
    }
    mine = 1;
    for (const Channel& other : next[channel]) {
      if (!visit(other)) {
        return false;
      }
    }
    state[channel] = 2;
    return true;
  };
  return std::ranges::all_of(next, [&](const auto& entry) { return visit(entry.first); });
}

// All shortest ways along dimensions in order, ties upwards.
Routes grid_routes(const Topology& topology) {
  const auto grid = topology.grid();
  Routes routes;
  const int32_t ranks = count_of(topology.rank_nodes());
  for (int32_t source = 0; source < ranks; ++source) {
    for (int32_t target = 0; target < ranks; ++target) {
      std::vector<int32_t> nodes = {source};
      int32_t stride = ranks;
      for (const GridDimension& dimension : grid) {
        stride /= dimension.size;
        const int32_t goal = target / stride % dimension.size;
        for (int32_t at = source / stride % dimension.size; at != goal;) {
          const int32_t up = (goal - at + dimension.size) % dimension.size;
          const bool goes_up = dimension.wraps ? 2 * up <= dimension.size : goal > at;
          const int32_t next = (at + (goes_up ? 1 : dimension.size - 1)) % dimension.size;
          nodes.push_back(nodes.back() + (next - at) * stride);
          at = next;
        }
      }
      if (nodes.size() > 1) {
        routes.push_back(route(topology, nodes));
      }
    }
  }
  return routes;
}

TEST(VcClasses, AreTwoOnWrappingGridsAndOneOnMeshes) {
  const struct {
    const char* spec;
    int32_t classes;
  } cases[] = {{"ring:5", 2},      {"torus:4x4", 2}, {"torus:3x5", 2},
               {"torus:3x4x3", 2}, {"mesh:4x3", 1},  {"torus:2x2", 1},
               {"ring:2", 1},      {"torus:2x5", 2}, {"mesh:2x2x3", 1}};
  for (const auto& [spec, count] : cases) {
    const Topology topology = support::topology_of(spec);
    const Routes routes = grid_routes(topology);
    for (const int32_t vcs : {2, 3, 64}) {
      const auto classes = assign_vc_classes(topology, routes, vcs, false);
      ASSERT_TRUE(classes) << classes.error().message;
      EXPECT_EQ(classes->count, count) << spec;
      EXPECT_TRUE(is_without_circle(routes, *classes)) << spec;
    }
    const auto one = assign_vc_classes(topology, routes, 1, false);
    EXPECT_EQ(bool{one}, count == 1) << spec;
  }
}

// By dimension: the second class where the way goes over the edge, on all of it.
TEST(VcClasses, AWayOverTheEdgeHasTheSecondClass) {
  const Topology topology = support::topology_of("torus:4x4");
  const Routes routes = {route(topology, {2, 3, 0, 4, 8}), route(topology, {0, 1, 5, 9}),
                         route(topology, {0, 12, 8}), route(topology, {13, 1, 2, 3, 0})};
  const auto classes = assign_vc_classes(topology, routes, 4, false);
  ASSERT_TRUE(classes);
  EXPECT_EQ(classes->class_of,
            (std::vector<std::vector<int32_t>>{{1, 1, 0, 0}, {0, 0, 0}, {1, 1}, {1, 1, 1, 1}}));
}

// One VC does where nothing goes all around, and where all are neighbours.
TEST(VcClasses, OneIsEnoughWhereNothingGoesAround) {
  const Topology ring = support::topology_of("ring:5");
  Routes neighbours;
  for (int32_t rank = 0; rank < 5; ++rank) {
    neighbours.push_back(route(ring, {rank, (rank + 1) % 5}));
  }
  EXPECT_TRUE(assign_vc_classes(ring, neighbours, 1, false));
  Routes most = neighbours;
  for (int32_t rank = 0; rank < 4; ++rank) {
    most.push_back(route(ring, {rank, (rank + 1) % 5, (rank + 2) % 5}));
  }
  EXPECT_TRUE(assign_vc_classes(ring, most, 1, false));
  most.push_back(route(ring, {4, 0, 1}));
  const auto refused = assign_vc_classes(ring, most, 1, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "vcs '1' are too few for the routes on ring:5: packets could wait in the circle of "
            "links 0->1, 1->2, 2->3, 3->4, 4->0 (deadlock=allow runs them)");
  const auto allowed = assign_vc_classes(ring, most, 1, true);
  ASSERT_TRUE(allowed);
  EXPECT_EQ(allowed->count, 1);
}

// Walks wherever links lead, on grids and off them: what is accepted has no circle, and no more
// classes than VCs; what is allowed all the same has classes in range.
TEST(VcClasses, AnyRoutesGetClassesWithoutACircleOrAreRefused) {
  Rng rng(20261127);
  int32_t accepted = 0, refused = 0;
  for (const char* spec : {"ring:6", "torus:3x4", "mesh:3x3", "fat_tree:8,radix=4", "torus:2x3x3",
                           "fully_connected:5", "bigraph:4x2"}) {
    const Topology topology = support::topology_of(spec);
    for (int32_t round = 0; round < 40; ++round) {
      Routes routes;
      for (int32_t i = 0; i < 12; ++i) {
        std::vector<LinkId> links;
        NodeId here{static_cast<int32_t>(rng.below(topology.nodes().size()))};
        for (std::size_t hops = 1 + rng.below(5); hops > 0; --hops) {
          const auto out = topology.links_out(here);
          links.push_back(out[rng.below(out.size())]);
          here = topology.link(links.back()).target;
        }
        routes.push_back(std::move(links));
      }
      const int32_t vcs = 1 + round % 4;
      const auto classes = assign_vc_classes(topology, routes, vcs, false);
      ++(classes ? accepted : refused);
      if (classes) {
        EXPECT_LE(classes->count, vcs);
        EXPECT_TRUE(is_without_circle(routes, *classes)) << spec << ", round " << round;
      }
      const auto allowed = assign_vc_classes(topology, routes, vcs, true);
      ASSERT_TRUE(allowed);
      for (std::size_t i = 0; i < routes.size(); ++i) {
        ASSERT_EQ(allowed->class_of[i].size(), routes[i].size());
        EXPECT_TRUE(std::ranges::all_of(allowed->class_of[i], [&](int32_t vc_class) {
          return vc_class >= 0 && vc_class < allowed->count && allowed->count <= vcs;
        }));
      }
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace pleach
