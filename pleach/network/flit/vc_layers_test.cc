#include "pleach/network/flit/vc_layers.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

std::vector<LinkId> route_of(std::initializer_list<int32_t> links) {
  std::vector<LinkId> route;
  for (const int32_t link : links) {
    route.push_back(LinkId{link});
  }
  return route;
}

// Links in one direction round a ring of four; each route takes two of them.
TEST(VcLayers, ARingNeedsTwo) {
  const std::vector<std::vector<LinkId>> routes = {route_of({0, 1}), route_of({1, 2}),
                                                   route_of({2, 3}), route_of({3, 0})};
  const VcLayers layers = assign_vc_layers(4, routes, 2);
  EXPECT_EQ(layers.count, 2);
  EXPECT_EQ(layers.layer_of, (std::vector<int32_t>{0, 0, 0, 1}));
  EXPECT_TRUE(layers.cycle.empty());
  // One does not suffice, and the cycle is that of the ring.
  const VcLayers one = assign_vc_layers(4, routes, 1);
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.layer_of, (std::vector<int32_t>{0, 0, 0, 0}));
  EXPECT_EQ(one.cycle, route_of({0, 1, 2, 3}));
}

bool has_cycle(int32_t links, std::span<const std::vector<LinkId>> routes, const VcLayers& layers,
               int32_t layer) {
  std::vector<std::vector<bool>> leads(at(links), std::vector<bool>(at(links)));
  for (std::size_t i = 0; i < routes.size(); ++i) {
    for (std::size_t hop = 1; layers.layer_of[i] == layer && hop < routes[i].size(); ++hop) {
      leads[routes[i][hop - 1].index()][routes[i][hop].index()] = true;
    }
  }
  for (std::size_t via = 0; via < leads.size(); ++via) {
    for (auto& row : leads) {
      for (std::size_t to = 0; row[via] && to < leads.size(); ++to) {
        row[to] = row[to] || leads[via][to];
      }
    }
  }
  bool any = false;
  for (std::size_t link = 0; link < leads.size(); ++link) {
    any = any || leads[link][link];
  }
  return any;
}

TEST(VcLayers, RandomRoutesAreFreeOfCyclesInEachLayer) {
  constexpr int32_t kLinks = 12;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    std::vector<std::vector<LinkId>> routes(1 + rng.below(30));
    for (auto& route : routes) {
      for (uint64_t hops = rng.below(6); hops > 0; --hops) {
        route.push_back(LinkId{static_cast<int32_t>(rng.below(kLinks))});
      }
    }
    const VcLayers layers = assign_vc_layers(kLinks, routes, 40);
    bool loops = false;  // a link twice in one route is a cycle of its own
    for (std::size_t i = 0; i < routes.size(); ++i) {
      for (std::size_t a = 0; a < routes[i].size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          loops = loops || routes[i][a] == routes[i][b];
        }
      }
    }
    EXPECT_EQ(layers.cycle.empty(), !loops);
    for (int32_t layer = 0; layer < layers.count && !loops; ++layer) {
      EXPECT_FALSE(has_cycle(kLinks, routes, layers, layer)) << "layer " << layer;
    }
    // A cycle is one of dependencies, each of which some route has.
    for (std::size_t i = 0; i < layers.cycle.size(); ++i) {
      const LinkId from = layers.cycle[i], to = layers.cycle[(i + 1) % layers.cycle.size()];
      bool found = false;
      for (const auto& route : routes) {
        for (std::size_t hop = 1; hop < route.size(); ++hop) {
          found = found || (route[hop - 1] == from && route[hop] == to);
        }
      }
      EXPECT_TRUE(found) << from.value << " to " << to.value;
    }
  }
}

}  // namespace
}  // namespace pleach
