#include "pleach/network/flit/routers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/traffic_routes.h"
#include "pleach/topology/shapes.h"
#include "tests/support/slow_routers.h"

namespace pleach {
namespace {

int32_t draw(Rng& rng, int32_t least, int32_t most) {
  return least + static_cast<int32_t>(rng.below(static_cast<uint64_t>(most - least + 1)));
}

// Routers in a ring, with more channels and interfaces at random.
struct RandomFabric {
  Fabric fabric;
  std::vector<int32_t> outputs;                 // ports so far, by router
  std::vector<int32_t> inputs;                  // the same
  std::vector<std::vector<int32_t>> leaves_by;  // by router: channels between routers out of it
  std::vector<int32_t> router_of;               // by interface
  std::vector<int32_t> ejection;                // by interface: port

  RandomFabric(Rng& rng, int32_t routers, int32_t channels, int32_t interfaces)
      : outputs(at(routers)), inputs(at(routers)), leaves_by(at(routers)) {
    fabric.router_count = routers;
    fabric.interface_count = interfaces;
    for (int32_t i = 0; i < channels; ++i) {
      const int32_t from = i < routers ? i : draw(rng, 0, routers - 1);
      const int32_t to = i < routers ? (i + 1) % routers : draw(rng, 0, routers - 1);
      leaves_by[at(from)].push_back(count_of(fabric.channels));
      add(rng, {from, outputs[at(from)]++}, {to, inputs[at(to)]++});
    }
    for (int32_t i = 0; i < interfaces; ++i) {
      const int32_t router = i < routers ? i : draw(rng, 0, routers - 1);
      router_of.push_back(router);
      ejection.push_back(outputs[at(router)]);
      add(rng, {-1, i}, {router, inputs[at(router)]++});
      add(rng, {router, outputs[at(router)]++}, {-1, i});
    }
  }

  void add(Rng& rng, FabricEnd source, FabricEnd target) {
    FlitRate rate;
    if (rng.below(4) == 0) {
      rate.cycles = draw(rng, 1, 9);
      rate.flits = draw(rng, 1, static_cast<int32_t>(rate.cycles));
    }
    const int32_t passing = source.router >= 0 && rng.below(3) == 0 ? draw(rng, 1, 5) : 0;
    fabric.channels.push_back({source, target, draw(rng, 0, 4), rate, passing});
  }

  // A walk from one interface to another: anywhere first, then round the ring.
  std::vector<uint16_t> hops(Rng& rng, int32_t source, int32_t target, int32_t classes) const {
    std::vector<uint16_t> result;
    int32_t here = router_of[at(source)];
    for (int32_t wander = draw(rng, 0, 2); here != router_of[at(target)] || wander > 0; --wander) {
      const auto& channels = leaves_by[at(here)];
      const std::size_t choice = wander > 0 ? rng.below(channels.size()) : 0;
      const FabricChannel& channel = fabric.channels[at(channels[choice])];
      result.push_back(
          static_cast<uint16_t>(channel.source.port * classes + draw(rng, 0, classes - 1)));
      here = channel.target.router;
    }
    result.push_back(static_cast<uint16_t>(ejection[at(target)] * classes));
    return result;
  }
};

struct Scene {
  int32_t routers, channels, interfaces, most_vcs;
};

RouterOptions random_options(Rng& rng, int32_t most_vcs) {
  RouterOptions options;
  options.vcs = draw(rng, 1, most_vcs);
  options.classes = draw(rng, 1, std::min(3, options.vcs));
  options.buffer = draw(rng, 1, 9);
  options.routing_delay = draw(rng, 0, 2);
  options.vc_delay = draw(rng, 1, 3);
  options.switch_delay = draw(rng, 1, 3);
  options.credit_delay = draw(rng, 0, 2);
  options.iterations = draw(rng, 1, 3);
  options.by_priority = rng.below(2) == 0;
  options.room = draw(rng, 0, options.buffer);
  options.shortest_packet = draw(rng, 1, 3);
  return options;
}

// Offers packets at random to both, in cycles in which there are any at all, and compares what
// comes out, cycle by cycle.
class Duel {
 public:
  Duel(uint64_t seed, const Scene& scene)
      : rng_(seed),
        network_(rng_, scene.routers, scene.channels, scene.interfaces),
        options_(random_options(rng_, scene.most_vcs)),
        fast_(std::move(Routers::create(network_.fabric, options_)).value()),
        slow_(network_.fabric, options_) {}

  const RouterCounts& counts() const { return slow_.counts(); }
  // Flits delivered: where routes are random, there may be none.
  int64_t run(int64_t cycles) {
    const auto busy = rng_.below(3);
    for (int64_t cycle = 0; cycle < cycles && !testing::Test::HasFailure(); ++cycle) {
      const bool offers = cycle < cycles / 2 && rng_.below(3) <= busy;
      const auto next = fast_->next_cycle();
      if (!offers && (!next || *next > cycle)) {
        EXPECT_TRUE(slow_.cycle([] {}).empty()) << "in cycle " << cycle;
        fast_->skip_to(cycle + 1);
        continue;
      }
      compare(cycle, offers);
    }
    return delivered_;
  }

 private:
  void compare(int64_t cycle, bool offers) {
    fast_->begin_cycle();
    std::vector<support::SlowRouters::Delivery> fast;
    for (const FlitDelivery& flit : fast_->delivered()) {
      fast.push_back({flit.interface, number_of_.at(flit.packet), flit.head, flit.tail});
    }
    std::ranges::sort(fast);
    delivered_ += count_of(fast);
    EXPECT_EQ(fast, slow_.cycle([&] { offer(offers); })) << "in cycle " << cycle;
    fast_->end_cycle();
    EXPECT_EQ(fast_->inconsistency(), "") << "after cycle " << cycle;
    EXPECT_EQ(fast_->counts(), slow_.counts()) << "after cycle " << cycle;
  }

  void offer(bool offers) {
    for (int32_t i = 0; i < network_.fabric.interface_count && offers; ++i) {
      if (rng_.below(2) == 0) {
        continue;
      }
      const int32_t target = draw(rng_, 0, network_.fabric.interface_count - 1);
      const auto hops = network_.hops(rng_, i, target, options_.classes);
      const int32_t length = options_.shortest_packet + draw(rng_, 0, 6);
      const Routers::Packet packet{hops, length, draw(rng_, 0, length), draw(rng_, 0, 3)};
      const PacketNumber number = fast_->offer(i, packet);
      number_of_[number] = slow_.offer(i, packet);
      if (packet.supplied < length) {
        short_.push_back({i, number, number_of_[number], length - packet.supplied});
      }
    }
    for (Short& one : short_) {
      const int32_t more = draw(rng_, 0, std::min(2, one.missing));
      if (more > 0) {
        fast_->supply(one.interface, one.number, more);
        slow_.supply(one.slow_number, more);
        one.missing -= more;
      }
    }
    std::erase_if(short_, [](const Short& one) { return one.missing == 0; });
  }

  struct Short {
    int32_t interface;
    PacketNumber number;
    int32_t slow_number, missing;
  };

  Rng rng_;
  RandomFabric network_;
  RouterOptions options_;
  std::unique_ptr<Routers> fast_;
  support::SlowRouters slow_;
  std::map<PacketNumber, int32_t> number_of_;
  std::vector<Short> short_;
  int64_t delivered_ = 0;
};

TEST(Routers, DoWhatTheSlowOnesDo) {
  // Few ports, many VCs, and so many ports that masks of outputs too are of two words.
  constexpr Scene kScenes[] = {
      {3, 5, 3, 4}, {6, 14, 7, 6}, {2, 6, 3, 40}, {3, 40, 20, 7}, {2, 20, 130, 2}};
  for (const Scene& scene : kScenes) {
    int64_t delivered = 0;
    RouterCounts most;
    for (uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", routers " << scene.routers
                                      << ", channels " << scene.channels);
      Duel duel(seed, scene);
      delivered += duel.run(scene.interfaces > 7 ? 50 : 200);
      most.vc_stalls = std::max(most.vc_stalls, duel.counts().vc_stalls);
      most.credit_stalls = std::max(most.credit_stalls, duel.counts().credit_stalls);
      most.switch_stalls = std::max(most.switch_stalls, duel.counts().switch_stalls);
    }
    EXPECT_GT(std::min({most.vc_stalls, most.credit_stalls, most.switch_stalls}), 0);
    EXPECT_GT(delivered, 500) << scene.routers << " routers";
  }
}

// How many cycles a packet takes from its creation to its last flit, alone.
int64_t time_alone(const Fabric& fabric, const RouterOptions& options, int32_t interface,
                   std::span<const uint16_t> hops, int32_t length) {
  const auto routers = std::move(Routers::create(fabric, options)).value();
  routers->offer(interface, {.hops = hops, .length = length, .supplied = length});
  while (true) {
    routers->begin_cycle();
    for (const FlitDelivery& flit : routers->delivered()) {
      if (flit.tail) {
        return routers->now();
      }
    }
    routers->end_cycle();
  }
}

// A packet alone: 4 cycles in each router, its channels, and 3 more; a cycle per flit after the
// head.
TEST(Routers, APacketAloneTakesWhatTheFormulaSays) {
  struct Case {
    const char* topology;
    int32_t channel;
  };
  for (const auto& [spec, channel] : {Case{"torus:8x8,latency=2ns", 2},
                                      {"mesh:5x4,latency=1ns", 1},
                                      {"torus:3x4x2,latency=150ns", 150},
                                      {"ring:7,latency=0", 0}}) {
    const Topology topology = std::move(parse_topology(spec)).value();
    const TopologyFabric fabric = std::move(fabric_of(topology, {})).value();
    auto routes = std::move(TrafficRoutes::create(topology, fabric, {})).value();
    RouterOptions options;
    options.classes = routes.classes();
    Rng rng(1);
    const int32_t ranks = count_of(topology.rank_nodes());
    for (int32_t i = 0; i < 60; ++i) {
      const int32_t source = draw(rng, 0, ranks - 1), target = draw(rng, 0, ranks - 1);
      const auto hops = routes.between(source, target, rng);
      const int64_t channels = count_of(hops) - 1;
      const int32_t length = i % 2 == 0 ? 1 : 5;
      options.room = length;
      EXPECT_EQ(time_alone(fabric.fabric, options, source, hops, length),
                4 * (channels + 1) + channels * channel + 3 + length - 1)
          << spec << ": " << source << " to " << target;
    }
  }
}

TEST(Routers, RefuseOptionsOutOfRange) {
  const Topology topology = std::move(parse_topology("ring:4")).value();
  const Fabric fabric = std::move(fabric_of(topology, {})).value().fabric;
  struct Case {
    RouterOptions options;
    const char* error;
  };
  RouterOptions none, many, delay;
  none.vcs = 0;
  many.classes = 5;
  delay.vc_delay = 0;
  for (const auto& [options, error] : {Case{none, "vcs '0' is outside 1 to 64"},
                                       {many, "classes '5' is outside 1 to 4"},
                                       {delay, "vc_delay '0' is outside 1 to 1024"}}) {
    const auto refused = Routers::create(fabric, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, error);
  }
}

}  // namespace
}  // namespace pleach
