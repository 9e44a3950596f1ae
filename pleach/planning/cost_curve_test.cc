#include "pleach/planning/cost_curve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pleach/base/rng.h"
#include "pleach/network/model.h"
#include "pleach/planning/best_segments.h"
#include "pleach/planning/padding.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;
using Kind = CollectiveKind;
using Groups = std::vector<std::vector<NodeId>>;

// `count` groups; group g has the ranks g·step + k·stride.
struct Layout {
  int32_t count = 1;
  int32_t size = 1;
  int32_t step = 1;
  int32_t stride = 1;
};
Groups groups_of(const Layout& layout) {
  Groups groups;
  for (int32_t group = 0; group < layout.count; ++group) {
    groups.emplace_back();
    for (int32_t member = 0; member < layout.size; ++member) {
      groups.back().push_back(NodeId{group * layout.step + member * layout.stride});
    }
  }
  return groups;
}

// A curve and its planner.
struct Planned {
  const Topology& topology;
  Groups groups;
  Kind collective = Kind::kAllReduce;
  std::string algorithm = "ring";
  std::string model = "flow";
  SimulationOptions simulation = {};
  std::optional<int32_t> segment_count = 1;
  int64_t largest_bytes = int64_t{1} << 30;
  double tolerance = 0.005;
  std::vector<int64_t> sizes_bytes = {};
};
Result<CostCurve> measure(const Planned& planned) {
  PLEACH_ASSIGN(planner, make_planner(planned.topology, planned.algorithm,
                                      {.segment_count = planned.segment_count,
                                       .model = planned.model,
                                       .wants_certificate = false}));
  return CostCurve::measure({.topology = planned.topology,
                             .planner = *planner,
                             .groups = planned.groups,
                             .collective = planned.collective,
                             .model = planned.model,
                             .simulation = planned.simulation,
                             .largest_bytes = planned.largest_bytes,
                             .tolerance = planned.tolerance,
                             .sizes_bytes = planned.sizes_bytes});
}
CostCurve curve_of(const Planned& planned) {
  const auto curve = measure(planned);
  EXPECT_TRUE(curve) << curve.error().message;
  return *curve;
}

// (n-1)·(L·links + chunk/B), twice for an all_reduce; exact where n divides the size.
TEST(CostCurve, IsTheClosedFormOfARing) {
  const struct {
    std::string topology;
    Kind collective;
    int64_t phases, links;
  } cases[] = {
      {"ring:8,bandwidth=1GB/s,latency=100ns", Kind::kReduceScatter, 1, 1},
      {"ring:8,bandwidth=1GB/s,latency=100ns", Kind::kAllReduce, 2, 1},
      {"switch:8,bandwidth=1GB/s,latency=100ns", Kind::kAllGather, 1, 2},
  };
  for (const auto& [spec, collective, phases, links] : cases) {
    SCOPED_TRACE(spec + " " + std::string(to_text(collective)));
    const Topology topology = topology_of(spec);
    const CostCurve curve =
        curve_of({.topology = topology, .groups = groups_of({1, 8}), .collective = collective});
    for (int64_t size_bytes = 8; size_bytes <= int64_t{1} << 30; size_bytes *= 2) {
      const int64_t expected_ps = phases * 7 * (links * 100'000 + size_bytes / 8 * 1'000);
      EXPECT_NEAR(static_cast<double>(curve.time_ps(size_bytes)), static_cast<double>(expected_ps),
                  0.005 * static_cast<double>(expected_ps))
          << size_bytes;
    }
    EXPECT_LE(curve.samples().size(), 40U);
    EXPECT_EQ(curve.time_ps(0), 0);
    // Beyond the last sample the last slope: twice the largest size takes the bytes' time more.
    EXPECT_NEAR(static_cast<double>(curve.time_ps(int64_t{1} << 31)) / 1e12,
                static_cast<double>(phases * 7 * (int64_t{1} << 28) * 1'000) / 1e12, 0.01);
  }
}

// The line between samples, against simulations at sizes that are none of them.
TEST(CostCurve, IsWithinItsToleranceOfTheSimulation) {
  const uint64_t seed = 11;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  const struct {
    std::string topology, algorithm;
    Layout layout;
    std::optional<int32_t> segment_count;
    double error;  // beyond the tolerance where the model's own time jumps with the size
  } cases[] = {
      {"torus:4x4", "ring", {4, 4, 1, 4}, 1, 0.005},
      {"switch:8", "halving_doubling", {2, 4, 4, 1}, 1, 0.005},
      {"switch:8", "halving_doubling", {2, 4, 4, 1}, 4, 0.05},
      {"torus:4x4,header=16,packet=256", "ring", {1, 16}, std::nullopt, 0.01},
  };
  for (const auto& [spec, algorithm, layout, segment_count, error] : cases) {
    SCOPED_TRACE(spec + " " + algorithm);
    const Topology topology = topology_of(spec);
    const Groups groups = groups_of(layout);
    const CostCurve curve = curve_of({.topology = topology,
                                      .groups = groups,
                                      .algorithm = algorithm,
                                      .segment_count = segment_count,
                                      .largest_bytes = 64 << 20});
    std::vector<Schedule> schedules;
    for (const auto& group : groups) {
      schedules.push_back(*synthesize({.topology = topology, .participants = group}, algorithm));
    }
    for (int32_t round = 0; round < 12; ++round) {
      const auto size_bytes = static_cast<int64_t>(std::exp2(6 + 20 * rng.unit()));
      std::vector<Job> jobs;
      for (const Schedule& schedule : schedules) {
        jobs.push_back({borrowed(schedule), size_bytes, 0});
      }
      const int64_t simulated_ps =
          segment_count
              ? simulate("flow", topology, jobs, {.segment_count = *segment_count})->finish_ps
              : find_best_segments(topology, jobs)->simulation.finish_ps;
      EXPECT_NEAR(static_cast<double>(curve.time_ps(size_bytes)), static_cast<double>(simulated_ps),
                  error * static_cast<double>(simulated_ps))
          << size_bytes;
    }
  }
}

// Packets of 256 bytes make the time jump with the size; a line between sizes that are chosen would
// not say what these take.
TEST(CostCurve, OfGivenSizesIsTheSimulationAtThese) {
  const Topology topology = topology_of("torus:4x4,header=16,packet=256");
  const Groups groups = groups_of({1, 16});
  const Schedule ring = *synthesize({.topology = topology, .participants = groups.front()}, "ring");
  for (const auto segment_count : {std::optional<int32_t>(1), std::optional<int32_t>()}) {
    const CostCurve curve =
        curve_of({.topology = topology,
                  .groups = groups,
                  .segment_count = segment_count,
                  .sizes_bytes = {70'000, 16, 5'000'000, 70'000, 1'234, 4'096, 99'999}});
    std::vector<int64_t> sizes;
    for (const auto& [size_bytes, time_ps] : curve.samples()) {
      sizes.push_back(size_bytes);
      const std::vector<Job> jobs = {{borrowed(ring), padded_bytes(size_bytes, 16), 0}};
      const int64_t simulated_ps = segment_count
                                       ? simulate("flow", topology, jobs, {})->finish_ps
                                       : find_best_segments(topology, jobs)->simulation.finish_ps;
      EXPECT_EQ(time_ps, simulated_ps) << size_bytes;
    }
    EXPECT_EQ(sizes, (std::vector<int64_t>{16, 1'234, 4'096, 70'000, 99'999, 5'000'000}));
  }
  const CostCurve one =
      curve_of({.topology = topology, .groups = groups, .sizes_bytes = {1'000'001}});
  EXPECT_EQ(one.samples().size(), 1U);
}

TEST(CostCurve, NeverFalls) {
  const Topology topology = topology_of("torus:4x4,header=16,packet=256");
  const CostCurve curve = curve_of({.topology = topology,
                                    .groups = groups_of({1, 16}),
                                    .algorithm = "multitree",
                                    .segment_count = std::nullopt,
                                    .largest_bytes = 1 << 24});
  int64_t before_ps = 0;
  for (int64_t size_bytes = 1; size_bytes < 1 << 26; size_bytes += 1 + size_bytes / 7) {
    EXPECT_GE(curve.time_ps(size_bytes), before_ps) << size_bytes;
    before_ps = curve.time_ps(size_bytes);
  }
  EXPECT_GT(before_ps, 2 * curve.time_ps(1));
}

// Ranks {0, 2, 4, 6} and {1, 3, 5, 7} of a ring: every hop takes two links, each link serves both.
TEST(CostCurve, GroupsThatShareLinksTakeLonger) {
  const Topology topology = topology_of("ring:8,bandwidth=1GB/s,latency=100ns");
  const auto time_ps = [&](Groups groups) {
    return curve_of({.topology = topology,
                     .groups = std::move(groups),
                     .collective = Kind::kAllGather,
                     .largest_bytes = 1 << 20})
        .time_ps(1 << 20);
  };
  const int64_t one_ps = time_ps(groups_of({1, 4, 1, 2}));
  EXPECT_EQ(one_ps, 3 * (200'000 + (1 << 18) * 1'000));
  EXPECT_NEAR(static_cast<double>(time_ps(groups_of({2, 4, 1, 2}))),
              3 * (200'000 + (1 << 19) * 1'000.0), 10);
  // Groups of neighbours have links of their own but for the way back, which goes the other way.
  EXPECT_EQ(time_ps({groups_of({1, 2}).front(), {NodeId{5}}}), 100'000 + (1 << 19) * 1'000);
}

// Jobs that begin together, at each size as if nothing had been before, with the model's options.
TEST(CostCurve, IsOfAnyModelAndItsOptions) {
  const Topology topology = topology_of("ring:8,bandwidth=16GB/s,latency=100ns");
  const Groups groups = groups_of({2, 4, 1, 2});
  for (const std::string model : {"flow", "flit", "flit,vcs=8"}) {
    for (const Gate gate : {Gate::kDataflow, Gate::kLockstep}) {
      const SimulationOptions options = {.gate = gate};
      const CostCurve curve = curve_of({.topology = topology,
                                        .groups = groups,
                                        .model = model,
                                        .simulation = options,
                                        .largest_bytes = 32 << 10,
                                        .tolerance = 0.1});
      const auto planner = make_planner(topology, "ring");
      ASSERT_TRUE(planner);
      const auto schedules = (*planner)->schedules(Kind::kAllReduce, groups, 1);
      ASSERT_TRUE(schedules);
      for (const auto& [size_bytes, time_ps] : curve.samples()) {
        std::vector<Job> jobs;
        for (const auto& schedule : *schedules) {
          jobs.push_back({schedule, size_bytes, 0});
        }
        const auto alone = simulate(model, topology, jobs, options);
        ASSERT_TRUE(alone) << alone.error().message;
        EXPECT_EQ(time_ps, alone->finish_ps) << model << " " << size_bytes;
      }
    }
  }
}

TEST(CostCurve, GoesOnWithItsLastSlope) {
  const Topology topology = topology_of("ring:4,bandwidth=1GB/s,latency=100ns");
  const CostCurve whole = curve_of({.topology = topology, .groups = groups_of({1, 4})});
  for (const int64_t largest_bytes : {1, 4, 1 << 16}) {
    const CostCurve curve = curve_of(
        {.topology = topology, .groups = groups_of({1, 4}), .largest_bytes = largest_bytes});
    EXPECT_EQ(curve.samples().back().size_bytes, std::max<int64_t>(8, largest_bytes));
    EXPECT_EQ(curve.time_ps(1 << 30), whole.time_ps(1 << 30)) << largest_bytes;
  }
}

TEST(CostCurve, OneRankTakesNoTime) {
  const Topology topology = topology_of("ring:4");
  const CostCurve curve = curve_of({.topology = topology, .groups = groups_of({4, 1})});
  EXPECT_EQ(curve.time_ps(1), 0);
  EXPECT_EQ(curve.time_ps(1 << 30), 0);
}

TEST(CostCurve, AllToAllTakesWholeBlocks) {
  const Topology topology = topology_of("fully_connected:3,bandwidth=1GB/s,latency=100ns");
  const CostCurve curve = curve_of({.topology = topology,
                                    .groups = groups_of({1, 3}),
                                    .collective = Kind::kAllToAll,
                                    .algorithm = "direct",
                                    .largest_bytes = 1 << 20});
  EXPECT_EQ(curve.samples().front().size_bytes, 3);
  EXPECT_NEAR(static_cast<double>(curve.time_ps(300'000)), 100'000 + 100'000 * 1'000.0, 1e6);
}

TEST(CostCurve, InterpolatesSamples) {
  const CostCurve curve = CostCurve::from_samples({{10, 100}, {20, 300}, {40, 200}, {60, 500}});
  const struct {
    int64_t size_bytes, time_ps;
  } cases[] = {{0, 0},    {1, 100},  {10, 100}, {15, 200}, {20, 300},
               {30, 300}, {40, 300}, {50, 400}, {60, 500}, {100, 900}};
  for (const auto& [size_bytes, time_ps] : cases) {
    EXPECT_EQ(curve.time_ps(size_bytes), time_ps) << size_bytes;
  }
  EXPECT_EQ(CostCurve::from_samples({{10, 100}}).time_ps(1'000), 100);
}

TEST(CostCurve, RefusesWhatCannotBeMeasured) {
  const Topology topology = topology_of("ring:4");
  const Groups all = groups_of({1, 4});
  const struct {
    Planned planned;
    std::string message;
  } cases[] = {
      {{.topology = topology, .groups = {}}, "no group does the all_reduce"},
      {{.topology = topology, .groups = {{}}}, "group 0 has no ranks"},
      {{.topology = topology, .groups = all, .collective = Kind::kAllToAll},
       "ring does not do all_to_all; it does"},
      {{.topology = topology, .groups = all, .algorithm = "rnig"}, "unknown algorithm 'rnig'"},
      {{.topology = topology, .groups = all, .model = "fluid"}, "unknown network model 'fluid'"},
      {{.topology = topology, .groups = all, .segment_count = 0}, "segments 0: must be at least 1"},
      {{.topology = topology, .groups = all, .tolerance = 0}, "tolerance 0: must be positive"},
      {{.topology = topology, .groups = all, .sizes_bytes = {8, 0}}, "a curve at 0 bytes"},
      {{.topology = topology, .groups = groups_of({1, 5})}, "participant 4 is node 4"},
  };
  for (const auto& [planned, message] : cases) {
    const auto curve = measure(planned);
    ASSERT_FALSE(curve) << message;
    EXPECT_EQ(curve.error().message.substr(0, message.size()), message);
  }
}

TEST(CostCurve, SendsMessagesAlongRoutes) {
  const Topology topology = topology_of("ring:8,bandwidth=1GB/s,latency=100ns");
  const auto time_ps = [&](std::vector<std::pair<NodeId, NodeId>> pairs) {
    const auto curve =
        measure_send({.topology = topology, .pairs = std::move(pairs), .largest_bytes = 1 << 20});
    EXPECT_TRUE(curve) << curve.error().message;
    return curve->time_ps(1'000'000);
  };
  EXPECT_EQ(time_ps({{NodeId{0}, NodeId{1}}}), 1'000'000'000 + 100'000);
  EXPECT_EQ(time_ps({{NodeId{0}, NodeId{3}}}), 1'000'000'000 + 300'000);
  // Two messages over one link.
  EXPECT_EQ(time_ps({{NodeId{0}, NodeId{2}}, {NodeId{1}, NodeId{3}}}), 2'000'000'000 + 200'000);
  EXPECT_EQ(time_ps({{NodeId{4}, NodeId{4}}}), 0);
  EXPECT_EQ(measure_send({.topology = topology, .pairs = {}}).error().message, "no pair sends");
  EXPECT_EQ(measure_send({.topology = topology, .pairs = {{NodeId{0}, NodeId{8}}}})
                .error()
                .message.substr(0, 22),
            "pair 0: 8 is no node o");
}

}  // namespace
}  // namespace pleach
