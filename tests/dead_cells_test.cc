// Networks whose switches have dead cells and subnetworks: streams go round them, wait, or are
// refused.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/verify.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/model.h"
#include "pleach/synthesis/algorithm.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

using Group = std::vector<int32_t>;

Topology network(const std::string& spec) {
  Result<Topology> topology = load_topology(spec);
  EXPECT_TRUE(topology) << spec << ": " << topology.error().message;
  return std::move(topology).value();
}

Schedule all_reduce(const Topology& topology, const Group& group) {
  std::vector<NodeId> nodes;
  for (const int32_t rank : group) {
    nodes.push_back(NodeId{rank});
  }
  Result<Schedule> schedule = synthesize(
      {.topology = topology, .participants = nodes, .collective = CollectiveKind::kAllReduce},
      "in_switch");
  EXPECT_TRUE(schedule) << topology.name() << ": " << schedule.error().message;
  return std::move(schedule).value();
}

Result<Simulation> run(const Topology& topology, const std::vector<Group>& groups) {
  std::vector<Job> jobs;
  for (const Group& group : groups) {
    jobs.push_back({std::make_shared<const Schedule>(all_reduce(topology, group)), 1'000'000, 0});
  }
  return simulate("flow", topology, jobs, {.segment_count = 8});
}

std::vector<int64_t> finish_ps(const std::string& spec, const std::vector<Group>& groups) {
  const Result<Simulation> simulation = run(network(spec), groups);
  EXPECT_TRUE(simulation) << spec << ": " << simulation.error().message;
  return {simulation->job_finish_ps.begin(), simulation->job_finish_ps.end()};
}

Group all_of(int32_t ranks) {
  Group group;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    group.push_back(rank);
  }
  return group;
}

std::string cell_below(int32_t leaf, const char* kind, int32_t pair) {
  return "l1." + std::to_string(leaf) + ":" + kind + std::to_string(4 + pair);
}

// One stream has other subnetworks, and other lanes of a trunk.
TEST(DeadCells, CostAStreamNothingThatHasAnotherWay) {
  const std::vector<Group> all = {all_of(20)};
  for (const std::string dead :
       {",without_subnetwork=l2.0:0+l1.0:2.1", ",without_cell=l2.0:R0+l1.0:D4+l2.0:1/R1"}) {
    EXPECT_EQ(finish_ps("fred:D" + dead, all), finish_ps("fred:D", all)) << dead;
    const Topology topology = network("fred:D" + dead);
    const Verification verification =
        verify(all_reduce(topology, all.front()), &topology, switch_judge(topology));
    EXPECT_TRUE(verification.contention_free) << dead;
  }
}

// Three groups in a triangle want three subnetworks: without one they take turns, as with m = 2.
TEST(DeadCells, LetGroupsWait) {
  const std::vector<Group> triangle = {{0, 2}, {1, 5}, {3, 4}, {6, 7}};
  const std::string hub = "switch_tree:8,switch=fred,reduce,multicast";
  const std::vector<int64_t> sound = finish_ps(hub + ",middle=3", triangle);
  const std::vector<int64_t> dead =
      finish_ps(hub + ",middle=3,without_subnetwork=l1.0:1", triangle);
  EXPECT_EQ(dead, finish_ps(hub + ",middle=2", triangle));
  EXPECT_NE(dead, sound);
  EXPECT_EQ(sound, std::vector<int64_t>(4, sound.front()));
}

// Two of a trunk's four lanes are cut off, so that two of four streams wait: nothing to look for.
TEST(DeadCells, LeaveLanesForSoManyStreams) {
  const std::vector<Group> groups = {{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}};
  const Topology topology = network("fred:D,without_cell=l2.0:R0+l2.0:R3");
  const Result<Simulation> all = run(topology, groups);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->use.admission->undecided, 0);
  EXPECT_GT(all->use.admission->waited_ps, 0);
  EXPECT_EQ(run(topology, {groups[0], groups[1]})->use.admission->waited_ps, 0);
}

TEST(DeadCells, AreNamedWhereAStreamHasNoWay) {
  const Topology topology = network("fred:D,without_cell=l1.1:R1+l1.1:2/R0");
  const Result<Simulation> refused = run(topology, {{0, 1, 2}, {3, 6}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "switch l1.1 cannot carry a stream of the schedule by itself: 2->8; 8->2, on "
            "whichever lanes: dead is R1 (input ports 2, 3)");
  EXPECT_TRUE(run(topology, {{0, 1, 2}, {3, 5}}));
  const std::vector<Group> all = {all_of(20)};
  const Topology above = network("fred:D,without_cell=l1.0:R0+l2.0:R2+l2.0:R3");
  EXPECT_EQ(run(above, {{2, 3, 5}}).error().message,
            "switch l2.0 cannot carry a stream of the schedule by itself: 0,4->0,4, on whichever "
            "lanes: dead is R2 (input ports 4, 5), R3 (input ports 6, 7)");
  EXPECT_EQ(run(network("fred:D,without_cell=l1.1:D4+l2.0:R3"), all).error().message,
            "no lanes carry a stream of the schedule through all its switches: dead is D4 (output "
            "ports 8, 9) of l1.1; R3 (input ports 6, 7) of l2.0");
}

// Cells that trunks end at, dead at random: a stream over all leaves has a way, which costs it
// nothing, where each trunk has a lane that lives at both of its ends, both ways.
TEST(DeadCells, LeaveAStreamTheLanesThatLiveAtBothEnds) {
  const std::string wafer = "fred:D,io=20";  // ports 8 to 11 of a leaf go up
  const std::vector<int64_t> sound = finish_ps(wafer, {all_of(20)});
  int32_t refused = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    std::set<std::string> names;
    for (int32_t cell = 0; cell < 1 + static_cast<int32_t>(seed % 8); ++cell) {
      const char* kind = rng.below(2) == 0 ? "R" : "D";
      names.insert(rng.below(2) == 0 ? "l2.0:" + (kind + std::to_string(rng.below(10)))
                                     : cell_below(static_cast<int32_t>(rng.below(5)), kind,
                                                  static_cast<int32_t>(rng.below(2))));
    }
    const auto lives = [&](int32_t leaf, int32_t pair, const char* below, const char* above) {
      return !names.contains(cell_below(leaf, below, pair)) &&
             !names.contains("l2.0:" + (above + std::to_string(2 * leaf + pair)));
    };
    bool has_way = true;
    for (int32_t leaf = 0; leaf < 5; ++leaf) {
      has_way = has_way && (lives(leaf, 0, "D", "R") || lives(leaf, 1, "D", "R")) &&
                (lives(leaf, 0, "R", "D") || lives(leaf, 1, "R", "D"));
    }
    std::string dead = ",without_cell=";
    for (const std::string& name : names) {
      dead += (name == *names.begin() ? "" : "+") + name;
    }
    const Result<Simulation> simulation = run(network(wafer + dead), {all_of(20)});
    ASSERT_EQ(simulation.has_value(), has_way) << dead;
    if (simulation) {
      EXPECT_EQ(simulation->job_finish_ps.front(), sound.front()) << dead;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 110);
}

// Whatever is dead, groups finish, or one stream has no way by itself.
TEST(DeadCells, StopNoOtherStream) {
  int32_t refused = 0, finished = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const FredSwitch cells = FredSwitch::create({8, 3}).value();
    const FredFaults dead = support::random_faults(cells, 3, rng);
    std::string model = "switch_tree:8,switch=fred,middle=3,reduce,multicast";
    std::string names;
    for (const FredCell& cell : dead.cells) {
      names += (names.empty() ? ",without_cell=l1.0:" : "+l1.0:") + cells.name_of(cell);
    }
    std::vector<Group> groups(4);
    const std::vector<int32_t> ports = support::shuffled_ports(8, rng);
    for (std::size_t next = 0; next < ports.size(); ++next) {
      groups[next / 2].push_back(ports[next]);
    }
    const Result<Simulation> simulation = run(network(model + names), groups);
    const FredSize size = {8, 3, {dead.cells, {}}};
    bool has_way = true;
    for (const Group& group : groups) {
      PortFlow flow = {group, group};
      std::ranges::sort(flow.inputs);
      std::ranges::sort(flow.outputs);
      has_way = has_way && support::ModeTrial(3, size.dead).routes(8, {flow});
    }
    EXPECT_EQ(simulation.has_value(), has_way) << names;
    (simulation ? finished : refused) += 1;
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(finished, 10);
}

}  // namespace
}  // namespace pleach
