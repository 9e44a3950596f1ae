// Times on FRED's wafers and on the mesh against closed forms: D = 100 MB per NPU, links of 20 ns,
// switches that take no time of their own.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/model.h"
#include "pleach/planning/best_segments.h"
#include "pleach/synthesis/algorithm.h"

namespace pleach {
namespace {

constexpr int64_t kBytes = 100'000'000;
constexpr int64_t kLinkPs = 20'000;

using Group = std::vector<int32_t>;

Topology wafer(const std::string& spec) {
  Result<Topology> topology = load_topology(spec);
  EXPECT_TRUE(topology) << spec << ": " << topology.error().message;
  return std::move(topology).value();
}

std::shared_ptr<const Schedule> made(const Topology& topology, const std::string& algorithm,
                                     CollectiveKind collective, const Group& group) {
  std::vector<NodeId> nodes;
  for (const int32_t rank : group) {
    nodes.push_back(NodeId{rank});
  }
  Result<Schedule> schedule = synthesize(
      {.topology = topology, .participants = nodes, .collective = collective, .root = Rank{0}},
      algorithm);
  EXPECT_TRUE(schedule) << topology.name() << ": " << schedule.error().message;
  return std::make_shared<const Schedule>(std::move(schedule).value());
}

std::vector<Job> jobs_of(const Topology& topology, const std::string& algorithm,
                         CollectiveKind collective, const std::vector<Group>& groups,
                         int64_t size_bytes = kBytes) {
  std::vector<Job> jobs;
  for (const Group& group : groups) {
    jobs.push_back({made(topology, algorithm, collective, group), size_bytes, 0});
  }
  return jobs;
}

Simulation run(const Topology& topology, std::span<const Job> jobs) {
  Result<Simulation> result = simulate("flow", topology, jobs, {});
  EXPECT_TRUE(result) << topology.name() << ": " << result.error().message;
  return std::move(result).value();
}

Simulation run_best(const Topology& topology, std::span<const Job> jobs) {
  Result<BestSegments> result = find_best_segments(topology, jobs);
  EXPECT_TRUE(result) << topology.name() << ": " << result.error().message;
  return std::move(result->simulation);
}

// `count` groups, each of `size` ranks `stride` apart, the first ones from 0, `step` apart.
std::vector<Group> groups_of(int32_t count, int32_t step, int32_t size, int32_t stride) {
  std::vector<Group> groups;
  for (int32_t index = 0; index < count; ++index) {
    Group& group = groups.emplace_back();
    for (int32_t rank = 0; rank < size; ++rank) {
      group.push_back(index * step + rank * stride);
    }
  }
  return groups;
}

const std::vector<Group> kAll = groups_of(1, 0, 20, 1);
// MP2-DP5-PP2: MP on consecutive NPUs, then PP, then DP.
const std::vector<Group> kTensor = groups_of(10, 2, 2, 1);
const std::vector<Group> kData = groups_of(4, 1, 5, 4);
// The first of a stage's ranks sends to both of the next.
const std::vector<Group> kPipeline = {
    {0, 2, 3}, {4, 6, 7}, {8, 10, 11}, {12, 14, 15}, {16, 18, 19}};

// One stream each, in one segment: its latency and the bytes at its share of the narrowest link.
TEST(WaferForms, InSwitchTakesWhatTheNarrowestLinkTakes) {
  struct Case {
    CollectiveKind collective;
    std::vector<Group> groups;
    int64_t links;  // of the longest way
    double ps_per_byte_b, ps_per_byte_d;
  };
  constexpr double kNpu = 1.0 / 3, kTrunk = 1 / 1.5;  // 3 and 1.5 TB/s
  const std::vector<Case> cases = {
      {CollectiveKind::kAllReduce, kAll, 4, kTrunk, kNpu},
      {CollectiveKind::kAllReduce, kData, 4, 4 * kTrunk, kNpu},
      {CollectiveKind::kAllReduce, kTensor, 2, kNpu, kNpu},
      {CollectiveKind::kBroadcast, kPipeline, 2, kNpu, kNpu},
      {CollectiveKind::kReduce, kAll, 4, kTrunk, kNpu},
      {CollectiveKind::kBroadcast, kAll, 4, kTrunk, kNpu},
      // Not aligned to leaves: trunks of 1.5 TB/s carry one stream each way, or two.
      {CollectiveKind::kAllReduce, {{3, 4}, {0, 1, 2}}, 4, kTrunk, kNpu},
      {CollectiveKind::kAllReduce, {{3, 4}, {7, 2}}, 4, 2 * kTrunk, kNpu},
  };
  for (const auto& [variant, is_d] : {std::pair("fred:B", false), std::pair("fred:D", true)}) {
    const Topology fred = wafer(variant);
    for (std::size_t index = 0; index < cases.size(); ++index) {
      SCOPED_TRACE(std::string(variant) + ", case " + std::to_string(index));
      const Case& one = cases[index];
      const double ps_per_byte = is_d ? one.ps_per_byte_d : one.ps_per_byte_b;
      const auto jobs = jobs_of(fred, "in_switch", one.collective, one.groups);
      const Simulation times = run(fred, jobs);
      const double expected_ps =
          static_cast<double>(one.links * kLinkPs) + ps_per_byte * static_cast<double>(kBytes);
      EXPECT_NEAR(static_cast<double>(times.finish_ps), expected_ps, 2);
      EXPECT_EQ(times.use.admission->waited_ps, 0);
      const auto bytes = jobs_of(fred, "in_switch", one.collective, one.groups, 1);
      EXPECT_NEAR(static_cast<double>(run(fred, bytes).finish_ps),
                  static_cast<double>(one.links * kLinkPs), 4);
    }
  }
}

int64_t bytes_between(const Topology& topology, const Simulation& simulation, NodeKind source,
                      NodeKind target, bool is_most) {
  int64_t least = INT64_MAX, most = 0;
  for (int32_t index = 0; index < count_of(topology.links()); ++index) {
    const Link& link = topology.link(LinkId{index});
    if (topology.node(link.source).kind == source && topology.node(link.target).kind == target) {
      least = std::min(least, simulation.use.links[at(index)].wire_bytes);
      most = std::max(most, simulation.use.links[at(index)].wire_bytes);
    }
  }
  return is_most ? most : least;
}

// Of N ranks an endpoint sends 2(N−1)/N of its buffer, in a switch the buffer: −47.4 % at 20,
// −37.5 % at 5, the same at 2. Every trunk carries one copy each way.
TEST(WaferForms, NpusSendTheirBufferOnce) {
  using enum NodeKind;
  for (const std::string variant : {"fred:B", "fred:D"}) {
    const Topology fred = wafer(variant);
    for (const auto& [groups, endpoint_bytes] :
         {std::pair(kAll, int64_t{190'000'000}), std::pair(kData, int64_t{160'000'000}),
          std::pair(kTensor, kBytes)}) {
      const auto in_switch = jobs_of(fred, "in_switch", CollectiveKind::kAllReduce, groups);
      const auto ring = jobs_of(fred, "ring", CollectiveKind::kAllReduce, groups);
      for (const bool is_most : {false, true}) {
        EXPECT_EQ(bytes_between(fred, run(fred, in_switch), kRank, kSwitch, is_most), kBytes);
        EXPECT_EQ(bytes_between(fred, run(fred, in_switch), kSwitch, kRank, is_most), kBytes);
        EXPECT_EQ(bytes_between(fred, run(fred, ring), kRank, kSwitch, is_most), endpoint_bytes);
      }
    }
    const Simulation all = run(fred, jobs_of(fred, "in_switch", CollectiveKind::kAllReduce, kAll));
    EXPECT_EQ(bytes_between(fred, all, kSwitch, kSwitch, false), kBytes);
    EXPECT_EQ(bytes_between(fred, all, kSwitch, kSwitch, true), kBytes);
  }
}

// Where switches do not reduce, at the best segments: D at an NPU's bandwidth over two ranks, and
// for a stage's output down a chain; on the mesh of 750 GB/s four times that.
TEST(WaferForms, EndpointsOverPairs) {
  for (const std::string variant : {"fred:A", "fred:C"}) {
    const Topology fred = wafer(variant);
    const Simulation pairs =
        run_best(fred, jobs_of(fred, "ring", CollectiveKind::kAllReduce, kTensor));
    EXPECT_NEAR(static_cast<double>(pairs.finish_ps), 33.3e6, 0.03 * 33.3e6) << variant;
  }
  const Topology mesh = wafer("wafer_mesh:5x4");
  const Simulation pair =
      run_best(mesh, jobs_of(mesh, "ring", CollectiveKind::kAllReduce, {{0, 1}, {3, 8}}));
  EXPECT_NEAR(static_cast<double>(pair.finish_ps), 133.3e6, 0.03 * 133.3e6);
  EXPECT_FALSE(synthesize({.topology = wafer("fred:C"),
                           .participants = {NodeId{0}, NodeId{1}},
                           .collective = CollectiveKind::kAllReduce},
                          "in_switch"));
}

}  // namespace
}  // namespace pleach
