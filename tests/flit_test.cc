// Whole schedules on routers, cycle by cycle: closed forms, MultiTree's evaluation, and what every
// network model owes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

struct Setting {
  std::string topology;
  std::string algorithm;
  int64_t size_kib = 0;
  Gate gate = Gate::kInOrder;
  FlowControl flow_control = FlowControl::kPacket;
  std::string model = "flit";
};

// Links of 150 cycles; on indirect networks the reference's routing, and nothing that a default
// link there adds.
std::string wired(const std::string& topology) {
  const bool is_grid = topology.starts_with("torus") || topology.starts_with("mesh");
  return topology + ",latency=150ns,bandwidth=16GB/s" +
         (is_grid ? "" : ",routing=dmodk,header=0,overhead=0s");
}

Simulation run(const Setting& what) {
  const Topology topology = support::topology_of(wired(what.topology));
  auto schedule = synthesize(
      {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
      what.algorithm);
  EXPECT_TRUE(schedule) << (schedule ? "" : schedule.error().message);
  const Job job{borrowed(*schedule), what.size_kib << 10, 0};
  auto result = simulate(what.model, topology, {&job, 1},
                         {.gate = what.gate, .flow_control = what.flow_control});
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return std::move(*result);
}

int64_t cycles(const Setting& what) {
  return run(what).use.cycles.value_or(-1);
}

struct Expected {
  Setting setting;
  double cycles, tolerance;
};

void expect_cycles(std::span<const Expected> rows) {
  for (const auto& [setting, expected, tolerance] : rows) {
    EXPECT_NEAR(static_cast<double>(cycles(setting)), expected, tolerance * expected)
        << setting.topology << ' ' << setting.algorithm << ' ' << setting.size_kib;
  }
}

// Steps · (flits + what a hop takes) + reductions, and the last credit's way home.
TEST(Flit, RingsTakeStepsTimesFlitsAndHops) {
  const struct {
    const char* topology;
    const char* algorithm;
    int64_t size_kib, ranks;
    int64_t two_hops;     // of which every second one ends in a reduction, a cycle later [cycles]
    int64_t credit_home;  // of the last flit, through the last channel, and begun cycles
  } rings[] = {{"torus:4x4", "ring", 32, 16, 325, 150},
               {"torus:4x4", "ring", 256, 16, 325, 150},
               {"mesh:4x4", "ring", 32, 16, 325, 150},
               {"torus:8x8", "ring", 32, 64, 325, 150},
               {"fat_tree:64,radix=8", "ring,order=published", 32, 64, 1233, 153},
               {"bigraph:4x8", "ring,order=published", 32, 32, 925, 153}};
  for (const auto& [topology, algorithm, size_kib, ranks, two_hops, credit_home] : rings) {
    const int64_t bytes = (size_kib << 10) / ranks;
    const int64_t flits = (bytes + 255) / 256 * 17;
    const int64_t reduction = (bytes + 2047) / 2048 * 16;
    EXPECT_EQ(cycles({topology, algorithm, size_kib}),
              (ranks - 1) * (2 * flits + two_hops + reduction) + credit_home)
        << topology << ' ' << size_kib;
  }
}

// What the authors' simulator took, within what is asked of a model of it. One figure is not met,
// torus:4x4 with 1 MiB by messages: there 45,901, here a fifth more, as messages of two steps meet
// at an interface; interface=published has what keeps them apart there.
TEST(Flit, MultiTreeTakesWhatItsEvaluationSays) {
  constexpr Gate kLockstep = Gate::kLockstep;
  constexpr FlowControl kPacket = FlowControl::kPacket, kMessage = FlowControl::kMessage;
  const std::string one = "flit,interfaces=1";
  const std::string mesh = "multitree,step_rule=published";
  const Expected rows[] = {
      {{"torus:4x4", "multitree,interfaces=1", 32, kLockstep, kPacket, one}, 4570, 0.001},
      {{"torus:4x4", "multitree,interfaces=1", 256, kLockstep, kPacket, one}, 33242, 0.001},
      {{"torus:8x8", "multitree,interfaces=1", 32, kLockstep, kPacket, one}, 5048, 0.001},
      {{"torus:4x4", "multitree", 32, kLockstep, kPacket}, 3508, 0.05},
      {{"torus:4x4", "multitree", 256, kLockstep, kPacket}, 20945, 0.05},
      {{"torus:4x4", "multitree", 1024, kLockstep, kPacket}, 63366, 0.15},
      {{"torus:4x4", "multitree", 32, kLockstep, kMessage}, 3272, 0.05},
      {{"torus:4x4", "multitree", 256, kLockstep, kMessage}, 16876, 0.05},
      {{"torus:8x8", "multitree", 32, kLockstep, kPacket}, 4588, 0.05},
      {{"torus:8x8", "multitree", 32, kLockstep, kMessage}, 4501, 0.05},
      {{"mesh:4x4", mesh, 32, kLockstep, kPacket}, 5348, 0.05},
      {{"mesh:4x4", mesh, 32, kLockstep, kMessage}, 5313, 0.05},
      {{"mesh:8x8", mesh, 32, kLockstep, kPacket}, 9194, 0.05},
      {{"mesh:8x8", mesh, 32, kLockstep, kMessage}, 9169, 0.05},
      {{"fat_tree:64,radix=8", "multitree", 32, kLockstep, kPacket}, 6497, 0.1},
      {{"fat_tree:64,radix=8", "multitree", 32, kLockstep, kMessage}, 6320, 0.1},
      {{"fat_tree:64,radix=8", "multitree", 256, kLockstep, kMessage}, 34095, 0.1},
      {{"bigraph:4x8", "multitree", 32, kLockstep, kPacket}, 5350, 0.1},
      {{"bigraph:4x8", "multitree", 32, kLockstep, kMessage}, 5131, 0.1},
      {{"bigraph:4x8", "hdrm", 32}, 9249, 0.001},
      {{"mesh:4x4", "ring_2d", 32}, 7986, 0.1},
  };
  expect_cycles(rows);
}

// By the rules of its interfaces, what the authors' simulator takes with free interfaces taken in
// ascending order. 2D rings know no priorities there, and run one half, twice: so the last credit's
// way home counts twice, too.
TEST(Flit, PublishedInterfacesTakeWhatTheirSimulatorTakes) {
  constexpr Gate kLockstep = Gate::kLockstep, kInOrder = Gate::kInOrder;
  constexpr FlowControl kPacket = FlowControl::kPacket, kMessage = FlowControl::kMessage;
  const std::string model = "flit,interface=published";
  const std::string plain = model + ",priority=none";
  const std::string mesh = "multitree,step_rule=published";
  const std::string rings = "ring_2d,order=published";
  const Expected rows[] = {
      {{"torus:4x4", "multitree", 32, kLockstep, kMessage, model}, 3'322, 0.01},
      {{"torus:4x4", "multitree", 256, kLockstep, kMessage, model}, 17'651, 0.07},
      {{"torus:4x4", "multitree", 1024, kLockstep, kMessage, model}, 47'147, 0.01},
      {{"torus:4x4", "multitree", 6144, kLockstep, kMessage, model}, 280'384, 0.01},
      {{"torus:4x4", "multitree", 32, kLockstep, kPacket, model}, 3'526, 0.01},
      {{"torus:4x4", "multitree", 256, kLockstep, kPacket, model}, 21'647, 0.07},
      {{"torus:4x4", "multitree", 1024, kLockstep, kPacket, model}, 60'660, 0.07},
      {{"mesh:4x4", mesh, 32, kLockstep, kPacket, model}, 5'303, 0.01},
      {{"mesh:4x4", mesh, 256, kLockstep, kPacket, model}, 33'233, 0.07},
      {{"torus:4x4", rings, 32, kInOrder, kPacket, plain}, 5'828, 0.05},
      {{"torus:4x4", rings, 256, kInOrder, kPacket, plain}, 28'872, 0.05},
      {{"torus:4x4", rings, 1024, kInOrder, kPacket, plain}, 69'326, 0.05},
      {{"mesh:4x4", rings, 32, kInOrder, kPacket, plain}, 8'070, 0.05},
      {{"mesh:4x4", rings, 256, kInOrder, kPacket, plain}, 43'188, 0.05},
      {{"torus:4x4", "ring", 256, kInOrder, kPacket, model}, 39'584, 0.0001},
  };
  expect_cycles(rows);
}

// Whatever the schedule and the gate, published interfaces come to an end, with the same messages.
TEST(Flit, PublishedInterfacesFinish) {
  for (const char* network :
       {"torus:3x3", "mesh:4x2", "ring:5", "switch:6", "fat_tree:8,radix=4"}) {
    for (const char* algorithm :
         {"ring", "bidirectional_ring", "ring_2d", "recursive_doubling", "halving_doubling",
          "direct", "multitree", "hierarchical", "tree", "double_binary_tree"}) {
      const Topology topology = support::topology_of(wired(network));
      const auto schedule = synthesize(
          {.topology = topology, .participants = {}, .collective = CollectiveKind::kAllReduce},
          algorithm);
      if (!schedule) {
        continue;  // not for this network
      }
      for (const Gate gate : {Gate::kDataflow, Gate::kInOrder, Gate::kLockstep, Gate::kOracle}) {
        for (const int32_t segments : {1, 3}) {
          const Job job{borrowed(*schedule), 20'000, 0};
          std::map<std::string, int64_t> events;
          for (const char* model : {"flit", "flit,interface=published"}) {
            const auto result = simulate(
                model, topology, {&job, 1},
                {.segment_count = segments, .gate = gate, .flow_control = FlowControl::kMessage});
            ASSERT_TRUE(result) << network << ' ' << algorithm << ' ' << result.error().message;
            events[model] = result->use.event_count;
          }
          EXPECT_EQ(events["flit"], events["flit,interface=published"]);
        }
      }
    }
  }
}

// With an interface for each link and no steps, contention-free schedules take what the fluid model
// says, where routers and interfaces add 12.5 cycles to a hop. Reductions are left out: there those
// of one time are one, here one follows the other.
TEST(Flit, AgreesWithFlowWhereNothingMeets) {
  for (const char* shape : {"torus:4x4", "mesh:4x4", "torus:3x5", "ring:6"}) {
    const std::string wires = std::string(shape) + ",bandwidth=16GB/s,header=16B,packet=256B";
    for (const char* algorithm : {"ring", "multitree"}) {
      const auto time_ps = [&](const std::string& topology, const std::string& model) {
        const Topology network = support::topology_of(topology);
        const auto schedule = synthesize(
            {.topology = network, .participants = {}, .collective = CollectiveKind::kAllReduce},
            algorithm);
        EXPECT_TRUE(schedule);
        const Job job{borrowed(*schedule), 1 << 20, 0};
        const auto result =
            simulate(model, network, {&job, 1},
                     {.flow_control = FlowControl::kMessage, .reduce_bandwidth_bytes_per_s = 0});
        EXPECT_TRUE(result) << (result ? "" : result.error().message);
        return static_cast<double>(result->finish_ps);
      };
      const double flow_ps = time_ps(wires + ",latency=162.5ns", "flow");
      EXPECT_NEAR(time_ps(wires + ",latency=150ns", "flit,binding=link"), flow_ps, 0.005 * flow_ps)
          << shape << ' ' << algorithm;
    }
  }
}

}  // namespace
}  // namespace pleach
