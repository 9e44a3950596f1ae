// Long packets that are taken through many cycles at once arrive as those that are not.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/traffic_routes.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

struct Offer {
  int64_t cycle = 0;
  int32_t interface = 0;
  int32_t length = 0;
  int32_t lump = 0;  // flits that are supplied at once
  std::vector<uint16_t> hops;
};

// When which interface got a head or a tail, and what had been queued then at the first one.
using Heard = std::vector<std::tuple<int64_t, int32_t, bool, bool, int64_t>>;

struct Outcome {
  Heard heard;
  std::vector<int64_t> channel_flits;
  RouterCounts counts;
  int64_t cycles = 0;  // that were not skipped
};

class Network {
 public:
  Network(const std::string& topology, RouterOptions options, Rng& rng)
      : topology_(support::topology_of(topology)),
        fabric_(*fabric_of(topology_, {.flit_bytes = 16})),
        options_(options),
        seed_(rng.next()) {
    auto routes = TrafficRoutes::create(topology_, fabric_, {.vcs = options_.vcs});
    EXPECT_TRUE(routes) << (routes ? "" : routes.error().message);
    options_.classes = routes->classes();
    const auto ranks = static_cast<uint64_t>(topology_.rank_nodes().size());
    int64_t cycle = 0;
    for (int i = 0; i < 20; ++i) {
      cycle += rng.below(3) == 0 ? static_cast<int64_t>(rng.below(3'000)) : 0;
      Offer& offer = offers_.emplace_back();
      offer.cycle = cycle;
      offer.interface = static_cast<int32_t>(rng.below(ranks));
      offer.length = 1 + static_cast<int32_t>(rng.below(rng.below(2) == 0 ? 40 : 12'000));
      offer.lump = 1 + static_cast<int32_t>(rng.below(rng.below(4) == 0 ? 20 : 4'000));
      const auto hops =
          routes->between(offer.interface, static_cast<int32_t>(rng.below(ranks)), rng);
      offer.hops.assign(hops.begin(), hops.end());
    }
  }

  Outcome run(bool together, bool settles) const {
    RouterOptions options = options_;
    options.takes_steady_cycles_together = together;
    auto made = Routers::create(fabric_.fabric, options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    Routers& routers = **made;
    Rng rng(seed_);
    Outcome outcome;
    std::vector<std::tuple<int32_t, PacketNumber, int32_t, int32_t>> rest;  // to be supplied
    std::size_t offered = 0, complete = 0;
    for (int64_t cycle = 0; complete < offers_.size() && !::testing::Test::HasFailure(); ++cycle) {
      EXPECT_LE(cycle, 1'000'000) << "packets are stuck";
      const bool is_offered = offered < offers_.size() && offers_[offered].cycle <= cycle;
      const bool supplies = cycle % 16 == 0 && !rest.empty();
      if (!is_offered && !supplies && routers.next_cycle().value_or(INT64_MAX) > cycle) {
        continue;
      }
      routers.skip_to(cycle);
      for (; offered < offers_.size() && offers_[offered].cycle <= cycle; ++offered) {
        const Offer& offer = offers_[offered];
        const int32_t first = std::min(offer.length, offer.lump);
        const PacketNumber packet = routers.offer(
            offer.interface, {.hops = offer.hops, .length = offer.length, .supplied = first});
        if (offer.length > first) {
          rest.emplace_back(offer.interface, packet, offer.length - first, offer.lump);
        }
      }
      for (auto& [interface, packet, left, lump] : rest) {
        if (supplies) {
          routers.supply(interface, packet, std::min(left, lump));
          left -= std::min(left, lump);
        }
      }
      std::erase_if(rest, [](const auto& one) { return std::get<2>(one) == 0; });
      if (settles && rng.below(500) == 0) {
        routers.settle();
        EXPECT_EQ(routers.inconsistency(), "") << "in cycle " << cycle;
      }
      ++outcome.cycles;
      routers.begin_cycle();
      for (const FlitDelivery& flit : routers.delivered()) {
        complete += flit.tail ? 1 : 0;
        if (flit.head || flit.tail) {
          outcome.heard.emplace_back(cycle, flit.interface, flit.head, flit.tail,
                                     routers.queued_flits(0));
        }
      }
      routers.end_cycle();
    }
    routers.settle();
    EXPECT_EQ(routers.inconsistency(), "");
    std::ranges::sort(outcome.heard);
    outcome.channel_flits = routers.channel_flits();
    outcome.counts = routers.counts();
    return outcome;
  }

 private:
  const Topology topology_;
  const TopologyFabric fabric_;
  RouterOptions options_;
  const uint64_t seed_;
  std::vector<Offer> offers_;
};

TEST(SteadyStreams, PacketsArriveAsWhenEveryCycleIsTaken) {
  Rng rng(7);
  int64_t all = 0, taken = 0;
  for (const char* topology :
       {"ring:4,latency=20ns", "torus:3x4,latency=150ns", "mesh:3x3,latency=7ns",
        "switch:5,latency=30ns,header=0,overhead=0s", "torus:4x4,latency=1ns",
        "fat_tree:16,radix=4,latency=90ns,header=0,overhead=0s"}) {
    for (int i = 0; i < 3; ++i) {
      RouterOptions options{.vcs = 2 + static_cast<int32_t>(rng.below(3)),
                            .buffer = rng.below(3) == 0 ? 40 : 400,
                            .routing_delay = static_cast<int32_t>(rng.below(2)),
                            .vc_delay = 1 + static_cast<int32_t>(rng.below(2)),
                            .credit_delay = static_cast<int32_t>(rng.below(2))};
      options.by_priority = rng.below(2) == 0;
      options.iterations = 1 + static_cast<int32_t>(rng.below(2));
      const Network network(topology, options, rng);
      const Outcome expected = network.run(false, false);
      const Outcome together = network.run(true, false);
      const Outcome settled = network.run(true, true);
      for (const Outcome* outcome : {&together, &settled}) {
        EXPECT_EQ(outcome->heard, expected.heard) << topology << ' ' << i;
        EXPECT_EQ(outcome->channel_flits, expected.channel_flits) << topology << ' ' << i;
        EXPECT_EQ(outcome->counts, expected.counts);
      }
      all += expected.cycles;
      taken += together.cycles;
    }
  }
  EXPECT_LT(taken, all);
}

// A packet of many flits takes as many cycles as its flits need to become steady, and to end.
TEST(SteadyStreams, OneLongPacketTakesFewCycles) {
  const Topology topology = support::topology_of("torus:4x4,latency=150ns");
  const TopologyFabric fabric = *fabric_of(topology, {.flit_bytes = 16});
  auto routes = TrafficRoutes::create(topology, fabric, {});
  ASSERT_TRUE(routes) << routes.error().message;
  Rng rng(1);
  const auto hops = routes->between(0, 5, rng);
  constexpr int32_t kFlits = 1 << 24;
  auto made = Routers::create(
      fabric.fabric,
      {.buffer = 318, .classes = routes->classes(), .takes_steady_cycles_together = true});
  ASSERT_TRUE(made) << made.error().message;
  Routers& routers = **made;
  routers.offer(0, {.hops = hops, .length = kFlits, .supplied = kFlits});
  int64_t taken = 0;
  while (const auto next = routers.next_cycle()) {
    routers.skip_to(*next);
    routers.begin_cycle();
    routers.end_cycle();
    ++taken;
  }
  routers.settle();
  EXPECT_LT(taken, 5'000);
  EXPECT_EQ(routers.counts().flits_delivered, kFlits);
  EXPECT_EQ(routers.counts().switch_grants, 3 * int64_t{kFlits});
}

// A flit and its credit together are on their way for longer than either: where the way to the
// interface is long, too, a packet is steady no earlier than when all of that is its own.
TEST(SteadyStreams, CreditsAreAsManyAfterLongWaysToInterfaces) {
  const Topology topology = support::topology_of("switch:2,latency=150ns,header=0,overhead=0s");
  const auto fabric = fabric_of(topology, {.flit_bytes = 16});
  auto routes = TrafficRoutes::create(topology, *fabric, {.vcs = 4});
  Rng rng(1);
  const auto hops = routes->between(0, 1, rng);
  for (int64_t begin = 0; begin < 600; begin += 20) {
    auto made =
        Routers::create(fabric->fabric, {.buffer = 400, .takes_steady_cycles_together = true});
    Routers& routers = **made;
    routers.skip_to(begin);
    constexpr int32_t kFlits = 4'000;
    routers.offer(0, {.hops = hops, .length = kFlits, .supplied = kFlits});
    int64_t cycles = 0;
    while (const auto next = routers.next_cycle()) {
      routers.skip_to(*next);
      routers.begin_cycle();
      routers.end_cycle();
      ++cycles;
    }
    EXPECT_LT(cycles, kFlits) << "none was taken together";
    routers.settle();
    EXPECT_EQ(routers.inconsistency(), "") << "from cycle " << begin;
  }
}

}  // namespace
}  // namespace pleach
