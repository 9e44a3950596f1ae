#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "pleach/base/index.h"
#include "pleach/network/flit/patterns.h"
#include "pleach/network/flit/traffic.h"
#include "pleach/topology/shapes.h"
#include "tests/support/random_schedules.h"

namespace pleach {
namespace {

struct Asked {
  const char* topology = "torus:8x8,latency=2ns";
  double rate = 0.9;
  int32_t vcs = 4;
  int64_t cycles = 4000;
  const char* pattern = "uniform";
  int32_t packet = 1;
  bool datelines = true;
  uint64_t seed = 1;
  bool allow_deadlock = false;
};

Result<TrafficResult> run(const Asked& how) {
  TrafficOptions options;
  options.routers.vcs = how.vcs;
  options.rate = how.rate;
  options.cycles = how.cycles;
  options.warmup_cycles = how.cycles / 2;
  options.pattern = how.pattern;
  options.packet_flits = how.packet;
  options.datelines = how.datelines;
  options.seed = how.seed;
  options.allow_deadlock = how.allow_deadlock;
  return run_traffic(std::move(parse_topology(how.topology)).value(), options, {});
}

// Of BookSim2: 1-flit packets, buffers of 8, dimension-order routes. (Its runs are longer.)
TEST(RouterTraffic, AcceptsWhatAnotherSimulatorDoes) {
  struct Case {
    const char* topology;
    int32_t vcs;
    double rate, accepted;
  };
  for (const auto& [topology, vcs, rate, accepted] : {Case{"torus:8x8,latency=2ns", 2, 0.9, 0.213},
                                                      {"torus:8x8,latency=2ns", 4, 0.9, 0.420},
                                                      {"torus:8x8,latency=2ns", 8, 0.9, 0.545},
                                                      {"torus:8x8,latency=2ns", 2, 0.15, 0.150},
                                                      {"torus:8x8,latency=2ns", 4, 0.15, 0.150},
                                                      {"torus:8x8,latency=2ns", 8, 0.15, 0.150},
                                                      {"mesh:8x8,latency=1ns", 4, 0.9, 0.385}}) {
    const auto result = run({.topology = topology, .rate = rate, .vcs = vcs, .cycles = 10000});
    ASSERT_TRUE(result);
    EXPECT_NEAR(result->accepted / accepted, 1, 0.015) << topology << ", " << vcs << " VCs";
  }
}

// Little traffic: nothing waits, and the mean is that of packets alone.
TEST(RouterTraffic, LatencyIsThatOfPacketsAloneAtLowRates) {
  const auto result = run({.rate = 0.001, .cycles = 200'000});
  ASSERT_TRUE(result);
  EXPECT_NEAR(result->accepted, 0.001, 0.00003);
  EXPECT_NEAR(result->mean_hops, 4, 0.1);  // 2 in each dimension
  const double alone = 4 * (result->mean_hops + 1) + 2 * result->mean_hops + 3;
  EXPECT_NEAR(result->mean_latency_cycles, alone, 0.1);
  EXPECT_EQ(std::accumulate(result->latencies.begin(), result->latencies.end(), int64_t{0}),
            result->packets);
  EXPECT_EQ(result->latencies.front(), 0);
}

// Rates at which 1 minus the rate is 1, or takes 10^12 cycles to tell from it.
TEST(RouterTraffic, RunsInWhichNoPacketIsCreatedEnd) {
  for (const double rate : {5e-324, 1e-300, 1e-18, 1e-12}) {
    const auto result = run({.rate = rate});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->packets, 0) << rate;
    EXPECT_EQ(result->cycles, 6000);
  }
}

TEST(RouterTraffic, SameSeedSameResult) {
  const auto one = run({.seed = 3}), same = run({.seed = 3}), other = run({.seed = 4});
  ASSERT_TRUE(one && same && other);
  EXPECT_EQ(one->latencies, same->latencies);
  ASSERT_EQ(one->counters.size(), same->counters.size());
  for (std::size_t i = 0; i < one->counters.size(); ++i) {
    EXPECT_EQ(one->counters[i].count, same->counters[i].count) << one->counters[i].name;
  }
  EXPECT_NE(one->latencies, other->latencies);
}

TEST(RouterTraffic, PatternsGoWhereTheySay) {
  const auto targets = [](const char* pattern, const char* topology) {
    return (*traffic_patterns().find(pattern))
        ->targets(std::move(parse_topology(topology)).value());
  };
  EXPECT_EQ((*targets("transpose", "mesh:4x4"))[1], 4);
  EXPECT_EQ((*targets("bit_complement", "torus:4x4"))[3], 12);
  EXPECT_EQ((*targets("tornado", "torus:8x8"))[0], 3 * 8 + 3);
  EXPECT_EQ((*targets("tornado", "ring:5"))[4], 1);
  EXPECT_EQ((*targets("neighbour", "torus:3x3"))[8], 0);
  EXPECT_TRUE((*targets("uniform", "switch:4")).empty());
}

// Every pattern, on networks of all kinds, delivers all that it offers at a low rate.
TEST(RouterTraffic, RunsOnAnyTopology) {
  for (const char* topology :
       {"torus:4x4", "mesh:3x5", "ring:6", "torus:2x3x4", "fat_tree:16,radix=4", "switch:8",
        "fully_connected:6", "hypercube:8", "bigraph:4x4"}) {
    for (const int32_t packet : {1, 4}) {
      const std::string near = std::string(topology) + ",latency=2ns";
      const auto result = run({.topology = near.c_str(), .rate = 0.05, .vcs = 4, .packet = packet});
      ASSERT_TRUE(result) << topology << ": " << result.error().message;
      EXPECT_NEAR(result->accepted, 0.05, 0.01) << topology;
    }
  }
}

TEST(RouterTraffic, WithoutDatelinesATorusDeadlocksAndTheCircleIsNamed) {
  const auto stuck = run({.topology = "torus:4x4,latency=2ns",
                          .rate = 0.9,
                          .vcs = 1,
                          .cycles = 100'000,
                          .packet = 8,
                          .datelines = false});
  ASSERT_FALSE(stuck);
  EXPECT_NE(stuck.error().message.find("deadlock, found in cycle"), std::string::npos);
  EXPECT_NE(stuck.error().message.find("->"), std::string::npos) << stuck.error().message;
  EXPECT_TRUE(run({.topology = "torus:4x4,latency=2ns",
                   .rate = 0.9,
                   .vcs = 2,
                   .cycles = 100'000,
                   .packet = 8}));
}

// More is offered than gets through, to few VCs and to long packets: with datelines nothing ever
// waits for itself. The detector looks, and flits and credits are there at the end. PLEACH_LONG: a
// million cycles of 20 seeds on 16 ranks, and of four on 64.
TEST(RouterTraffic, ATorusWithDatelinesNeverDeadlocks) {
  struct Case {
    const char* topology;
    uint64_t seeds;
  };
  const bool is_long = support::is_long();
  const int64_t cycles = is_long ? 1'000'000 : 10'000;
  for (const auto& [topology, seeds] : {Case{"torus:4x4,latency=2ns", is_long ? 20U : 6U},
                                        {"torus:8x8,latency=2ns", is_long ? 4U : 1U}}) {
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      Asked how{.topology = topology, .rate = 0.9, .cycles = cycles};
      how.vcs = 2 + static_cast<int32_t>(seed % 3);
      how.packet = int32_t{1} << (seed % 4);
      how.pattern = seed % 5 == 0 ? "tornado" : "uniform";
      how.seed = seed;
      how.allow_deadlock = true;  // which is to be found out
      const auto result = run(how);
      ASSERT_TRUE(result) << topology << " seed " << seed << ": " << result.error().message;
      EXPECT_EQ(result->cycles, cycles + cycles / 2);
      EXPECT_GT(result->accepted, 0.1) << topology << " seed " << seed;
    }
  }
}

TEST(RouterTraffic, RefusesWhatCannotBe) {
  struct Case {
    Asked run;
    const char* error;
  };
  for (const auto& [how, error] :
       {Case{{.rate = 0}, "rate '0' is outside (0, 1]"},
        {{.rate = 1.5}, "rate '1.5' is outside (0, 1]"},
        {{.packet = 9},
         "buffer '8' is smaller than a packet of 9 flits, which would never get a VC"},
        {{.vcs = 1}, "vcs '1': torus:8x8,latency=2ns has rings, whose datelines need two VCs"},
        {{.vcs = 65}, "vcs '65' is outside 1 to 64"},
        {{.topology = "mesh:4x2", .pattern = "transpose"}, "transpose: mesh:4x2 is no square grid"},
        {{.topology = "ring:6", .pattern = "bit_complement"},
         "bit_complement: ring:6 has 6 ranks, which is no power of two"},
        {{.topology = "switch:2049"},
         "switch:2049 has 2049 ranks; off grids traffic runs on at most 2048"},
        {{.topology = "mesh:4x4", .pattern = "tornado"}, "tornado: mesh:4x4 has no ring"},
        {{.cycles = int64_t{1} << 40}, "the run would take about"}}) {
    const auto refused = run(how);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message.substr(0, std::string(error).size()), error)
        << refused.error().message;
  }
}

}  // namespace
}  // namespace pleach
