// Times of synthesised schedules against closed forms: B bandwidth, L latency of a link, D the
// whole buffer, n ranks, all in picoseconds and bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

constexpr int64_t kLatencyPs = 150'000;   // the default of every shape
constexpr double kPsPerByte = 62.5;       // 16 GB/s
constexpr int64_t kSizeBytes = 16 << 20;  // D; divides into all chunks used here

Schedule schedule_of(const Topology& topology, const std::string& algorithm,
                     CollectiveKind collective = CollectiveKind::kAllReduce) {
  auto schedule =
      synthesize({.topology = topology, .participants = {}, .collective = collective}, algorithm);
  EXPECT_TRUE(schedule) << algorithm << (schedule ? "" : schedule.error().message);
  return std::move(*schedule);
}

int64_t time_ps(const std::string& model, const Topology& topology, const Schedule& schedule,
                const SimulationOptions& options = {}) {
  const Job job{borrowed(schedule), kSizeBytes, 0};
  const auto result = simulate(model, topology, std::span(&job, 1), options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result->finish_ps;
}

struct Case {
  std::string spec;
  std::string algorithm;
  double steps;       // latencies paid, in steps
  double hops;        // links per step
  double whole_sent;  // bytes one link carries / D
  CollectiveKind collective = CollectiveKind::kAllReduce;
};

double closed_form_ps(const Case& one) {
  return one.steps * one.hops * kLatencyPs +
         one.whole_sent * static_cast<double>(kSizeBytes) * kPsPerByte;
}

// Uncontended and in lockstep by themselves: both models give steps·L + bytes/B.
TEST(ClosedForms, UncontendedSchedules) {
  const Case cases[] = {
      // ring: 2(n-1) steps of D/n
      {"ring:8", "ring", 14, 1, 14.0 / 8},
      {"ring:64", "ring", 126, 1, 126.0 / 64},
      {"torus:4x4", "ring", 30, 1, 30.0 / 16},
      {"ring:8", "ring", 7, 1, 7.0 / 8, CollectiveKind::kAllGather},
      {"ring:8", "ring", 7, 1, 7.0 / 8, CollectiveKind::kReduceScatter},
      // both directions with half the data each
      {"ring:8", "bidirectional_ring", 14, 1, 7.0 / 8},
      // halving-doubling: 2 log2 n steps, D/2 + D/4 + ... twice
      {"fully_connected:8", "halving_doubling", 6, 1, 2 * 7.0 / 8},
      {"switch:16", "halving_doubling", 8, 2, 2 * 15.0 / 16},
      // recursive doubling: log2 n steps of D
      {"fully_connected:8", "recursive_doubling", 3, 1, 3},
      // direct: n-1 messages at once over links of their own, twice
      {"fully_connected:8", "direct", 2, 1, 2.0 / 8},
      // one stream through a reducing switch
      {"switch:8,reduce,multicast", "in_switch", 1, 2, 1},
      {"switch:8,reduce,multicast", "in_switch", 1, 2, 1, CollectiveKind::kBroadcast},
      {"switch:8,reduce,multicast", "in_switch", 1, 2, 1, CollectiveKind::kReduce},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.spec + " " + one.algorithm);
    const Topology topology = topology_of(one.spec);
    const Schedule schedule = schedule_of(topology, one.algorithm, one.collective);
    const double expected_ps = closed_form_ps(one);
    for (const char* model : {"flow", "analytic"}) {
      const auto got_ps = static_cast<double>(time_ps(model, topology, schedule));
      EXPECT_NEAR(got_ps, expected_ps, expected_ps * 0.001) << model;
    }
  }
}

// Two all_reduces of every quarter, along d nodes each: 4(d-1) steps of D/4d on every link, so
// d/(d-1) of a link's bandwidth. In dataflow latency costs more than that: a link that is idle for
// a moment starts on the second dimension of another quarter.
TEST(ClosedForms, TwoDimensionalRingsUseEveryLink) {
  for (const int32_t d : {4, 8}) {
    const std::string grid = "torus:" + std::to_string(d) + "x" + std::to_string(d);
    SCOPED_TRACE(grid);
    const double bytes_ps = static_cast<double>(kSizeBytes) * kPsPerByte * (d - 1) / d;
    const Topology plain = topology_of(grid + ",latency=0ns");
    const Schedule schedule = schedule_of(plain, "ring_2d");
    for (const char* model : {"flow", "analytic"}) {
      const auto got_ps = static_cast<double>(time_ps(model, plain, schedule));
      EXPECT_NEAR(got_ps, bytes_ps, bytes_ps * 0.005) << model;
    }
    const auto lockstep_ps = static_cast<double>(
        time_ps("flow", topology_of(grid), schedule, {.gate = Gate::kLockstep}));
    const double expected_ps = bytes_ps + 4.0 * (d - 1) * kLatencyPs;
    EXPECT_NEAR(lockstep_ps, expected_ps, expected_ps * 0.005);
  }
}

double algbw_in_flow(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                     int32_t segment_count) {
  const Job job{borrowed(schedule), size_bytes, 0};
  const auto result =
      simulate("flow", topology, std::span(&job, 1), {.segment_count = segment_count});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return static_cast<double>(size_bytes) * 1e12 / static_cast<double>(result->finish_ps);
}

// What large buffers get on a torus of d x d = N ranks, in bandwidths of a link: N/(2(N-1)) round a
// ring, twice that both ways, d/(d-1) in two dimensions, N/(2T) by trees of T steps; and the bound,
// 2N/(N-1), dimension by dimension.
TEST(ClosedForms, AlgorithmsHaveTheirBandwidths) {
  for (const auto& [d, steps] : {std::pair(4, 5), std::pair(8, 17)}) {
    const double n = d * d;
    const struct {
      std::string algorithm;
      double links;
      int32_t segment_count;
    } cases[] = {
        {"ring", n / (2 * (n - 1)), 1},
        {"bidirectional_ring", n / (n - 1), 1},
        {"ring_2d", static_cast<double>(d) / (d - 1), 16},  // one alone waits between dimensions
        {"multitree", n / (2 * steps), 1},
        {"hierarchical", 2 * n / (n - 1), 64},
    };
    const Topology topology = topology_of(fmt::format("torus:{}x{}", d, d));
    for (const auto& [algorithm, links, segment_count] : cases) {
      const double algbw = algbw_in_flow(topology, schedule_of(topology, algorithm),
                                         int64_t{64} << 20, segment_count);
      EXPECT_NEAR(algbw / 16e9, links, links * 0.02) << algorithm << " on " << topology.name();
    }
  }
}

// Spread over all shortest routes, an all_to_all in flow reaches its bound.
TEST(ClosedForms, AllToAllReachesItsBoundOverManyRoutes) {
  for (const auto& [spec, least] : {std::pair("leaf_spine:2x4,spines=4", 0.95),
                                    std::pair("torus:4x4", 0.97), std::pair("torus:8x8", 0.97)}) {
    const Topology topology = topology_of(std::string(spec) + ",routing=spread");
    const Schedule schedule = schedule_of(topology, "direct", CollectiveKind::kAllToAll);
    const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
    EXPECT_GE(algbw_in_flow(topology, schedule, int64_t{64} << 20, 1) / bound, least) << spec;
  }
}

// Four groups of two, one of each leaf, at the same time: over one spine they share its cable, over
// four they do not meet, although each group's schedule is made by itself.
TEST(ClosedForms, GroupsSideBySideTakeDifferentSpines) {
  const auto finish_ps = [](const std::string& routing) {
    const Topology topology = topology_of(
        "leaf_spine:2x4,bandwidth=16GB/s,latency=0ns,overhead=0,header=0,routing=" + routing);
    std::vector<Schedule> schedules;
    for (int32_t rank = 0; rank < 4; ++rank) {
      auto schedule = synthesize(
          {.topology = topology, .participants = {NodeId{rank}, NodeId{rank + 4}}}, "ring");
      EXPECT_TRUE(schedule) << schedule.error().message;
      schedules.push_back(std::move(*schedule));
    }
    std::vector<Job> jobs;
    for (const Schedule& schedule : schedules) {
      jobs.push_back({borrowed(schedule), kSizeBytes, 0});
    }
    const auto result = simulate("flow", topology, jobs, {});
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return static_cast<double>(result->finish_ps);
  };
  const double alone_ps = static_cast<double>(kSizeBytes) * kPsPerByte;  // D each way
  EXPECT_NEAR(finish_ps("spread"), alone_ps, alone_ps * 0.001);
  EXPECT_NEAR(finish_ps("shortest"), 4 * alone_ps, alone_ps * 0.001);
}

// Two boxes of eight, each GPU with a network card of its own.
TEST(ClosedForms, BoxesReachTheirBoundLevelByLevel) {
  const Topology topology = topology_of(
      "dgx_a100:2,bandwidth=300GB/s,latency=500ns,nic_bandwidth=25GB/s,nic_latency=1us,"
      "overhead=0,header=0");
  const Schedule schedule = schedule_of(topology, "hierarchical");
  const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
  EXPECT_GE(algbw_in_flow(topology, schedule, int64_t{1} << 30, 128) / bound, 0.98);
}

// Boxes whose network is what holds them up, and leaf-spines with a rail for each of a rank's
// cards: all cards of a rank work, over any kind of routes.
TEST(ClosedForms, SeveralCardsARankReachTheBound) {
  for (const std::string routing : {"shortest", "spread"}) {
    for (const std::string spec :
         {"leaf_spine:2x4,rails=2", "dgx_a100:2,nics=2,bandwidth=300GB/s,nic_bandwidth=5GB/s",
          "dgx_a100:3,nics=3,bandwidth=300GB/s,nic_bandwidth=3GB/s"}) {
      const Topology topology = topology_of(spec + ",header=0,overhead=0,routing=" + routing);
      const Schedule schedule = schedule_of(topology, "hierarchical");
      const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
      EXPECT_GE(algbw_in_flow(topology, schedule, int64_t{1} << 30, 32) / bound, 0.98)
          << topology.name();
    }
  }
}

// Only the hops that have links side by side are cut, so that stripes slow down no size.
TEST(ClosedForms, StripesCostNothing) {
  for (const std::string spec : {"dgx_h100:2,nics=8", "dgx_h100:3,nics=2", "dgx_b200:2,nics=3"}) {
    const Topology topology = topology_of(spec);
    for (const std::string algorithm : {"multi_ring", "hierarchical"}) {
      const Schedule plain = schedule_of(topology, algorithm + ",stripes=1");
      const Schedule striped = schedule_of(topology, algorithm);
      for (const int64_t size_bytes : {int64_t{1} << 10, int64_t{1} << 20, int64_t{1} << 28}) {
        EXPECT_GE(algbw_in_flow(topology, striped, size_bytes, 1),
                  0.999 * algbw_in_flow(topology, plain, size_bytes, 1))
            << spec << " " << algorithm << " " << size_bytes;
      }
    }
  }
}

struct TreeCase {
  std::string spec;
  std::string algorithm;
  int32_t steps;  // T of one phase, reference tables
};

const TreeCase kTrees[] = {{"mesh:2x2", "multitree", 2},
                           {"torus:4x4", "multitree", 5},
                           {"torus:8x8", "multitree", 17},
                           {"mesh:4x4", "multitree", 9},
                           {"mesh:4x4", "multitree,step_rule=published", 10},
                           {"mesh:4x4", "multitree,tree_order=index", 8},
                           {"mesh:8x8", "multitree", 32}};

// A MultiTree phase uses each link at most once a step: T·D/(n·B) exactly, without latency, for
// either gate and either model. An all_reduce is two phases; there dataflow may finish earlier,
// because an all-gather edge need not wait for the last reduction elsewhere.
TEST(ClosedForms, MultiTreeTakesItsSteps) {
  for (const TreeCase& one : kTrees) {
    const Topology topology = topology_of(one.spec + ",latency=0ns");
    for (const CollectiveKind collective :
         {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      SCOPED_TRACE(one.spec + " " + one.algorithm + " " + std::string(to_text(collective)));
      const Schedule schedule = schedule_of(topology, one.algorithm, collective);
      const bool two_phases = collective == CollectiveKind::kAllReduce;
      const int64_t chunk_ps = kSizeBytes / schedule.rank_count() * 125 / 2;
      const int64_t expected_ps = (two_phases ? 2 : 1) * one.steps * chunk_ps;
      EXPECT_EQ(time_ps("analytic", topology, schedule), expected_ps);
      EXPECT_EQ(time_ps("flow", topology, schedule, {.gate = Gate::kLockstep}), expected_ps);
      const int64_t dataflow_ps = time_ps("flow", topology, schedule);
      if (two_phases) {
        EXPECT_LE(dataflow_ps, expected_ps);
        EXPECT_GE(dataflow_ps, expected_ps * 15 / 16);
      } else {
        EXPECT_EQ(dataflow_ps, expected_ps);
      }
    }
  }
}

// With latency a chain of dependent steps pays it: between never and once a step. A barrier after
// every step, the analytic model, pays it always.
TEST(ClosedForms, LatencyCostsMultiTreeAtMostOncePerStep) {
  for (const TreeCase& one : kTrees) {
    SCOPED_TRACE(one.spec + " " + one.algorithm);
    const Topology topology = topology_of(one.spec);
    const Schedule schedule = schedule_of(topology, one.algorithm);
    const int64_t chunk_ps = kSizeBytes / schedule.rank_count() * 125 / 2;
    const int64_t lockstep_ps = time_ps("flow", topology, schedule, {.gate = Gate::kLockstep});
    const int64_t barrier_ps = 2 * one.steps * (chunk_ps + kLatencyPs);
    EXPECT_EQ(time_ps("analytic", topology, schedule), barrier_ps);
    EXPECT_GT(lockstep_ps, 2 * one.steps * chunk_ps);
    EXPECT_LE(lockstep_ps, barrier_ps);
    if (one.spec == "mesh:2x2") {  // every step waits for the one before
      EXPECT_EQ(time_ps("flow", topology, schedule), barrier_ps);
    }
  }
}

// The price of never waiting, as docs/network.md tells it: an idle connection starts a long message
// of a later step just before an earlier one becomes ready. Segments make it vanish.
TEST(ClosedForms, WorkConservingIsNotFree) {
  const Topology topology = topology_of("mesh:4x4");
  const Schedule schedule = schedule_of(topology, "multitree,tree_order=index");
  const double chunk_ps = static_cast<double>(kSizeBytes) / 16 * kPsPerByte;
  const auto chunks = [&](const SimulationOptions& options) {
    return static_cast<double>(time_ps("flow", topology, schedule, options)) / chunk_ps;
  };
  EXPECT_NEAR(chunks({.gate = Gate::kLockstep}), 16.03, 0.01);
  EXPECT_NEAR(chunks({}), 17.01, 0.01);
  EXPECT_LT(chunks({.segment_count = 16}), 16.1);
}

// A certificate's bound is never beaten, whatever the algorithm, the segments and the topology.
TEST(ClosedForms, NothingBeatsTheBound) {
  int32_t count = 0;
  for (const char* spec : {"ring:6", "torus:4x4", "mesh:3x5", "fully_connected:6", "switch:5",
                           "switch:6,reduce,multicast", "torus:2x3x2"}) {
    const Topology topology = topology_of(std::string(spec) + ",latency=0ns");
    for (const Algorithm* algorithm : algorithms()) {
      for (const CollectiveKind collective : algorithm->collectives) {
        const auto schedule = synthesize(
            {.topology = topology, .participants = {}, .collective = collective}, algorithm->name);
        if (!schedule) {
          EXPECT_EQ(schedule.error().code, ErrorCode::kInfeasible) << schedule.error().message;
          continue;
        }
        for (const int32_t segments : {1, 8}) {
          const int64_t size_bytes = int64_t{schedule->rank_count()} * 1'000'000;
          const Job job{borrowed(*schedule), size_bytes, 0};
          const auto result =
              simulate("flow", topology, std::span(&job, 1), {.segment_count = segments});
          ASSERT_TRUE(result) << result.error().message;
          const double algbw =
              static_cast<double>(size_bytes) * 1e12 / static_cast<double>(result->finish_ps);
          EXPECT_LE(algbw, schedule->provenance.certificate.bound_algbw_bytes_per_s * (1 + 1e-6))
              << spec << " " << algorithm->name << " " << to_text(collective);
          ++count;
        }
      }
    }
  }
  EXPECT_GT(count, 300);
}

}  // namespace
}  // namespace pleach
