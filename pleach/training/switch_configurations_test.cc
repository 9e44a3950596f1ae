#include "pleach/training/switch_configurations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "pleach/fabric/switch_model.h"
#include "pleach/topology/switch_ports.h"
#include "tests/support/topologies.h"

namespace pleach {
namespace {

using support::topology_of;

Strategy strategy_of(const std::string& text, const Topology& topology) {
  const auto strategy = parse_strategy(text, count_of(topology.rank_nodes()));
  PLEACH_CHECK(strategy, strategy ? "" : strategy.error().message.c_str());
  return *strategy;
}

SwitchConfigurations configured(const Topology& topology, const std::string& strategy,
                                const ConfigureOptions& options = {}) {
  auto result = configure_switches(topology, strategy_of(strategy, topology), options);
  PLEACH_CHECK(result, result ? "" : result.error().message.c_str());
  return std::move(*result);
}

const ConfiguredPhase& phase_of(const SwitchConfigurations& configured, const std::string& name) {
  const auto found = std::ranges::find_if(
      configured.phases, [&](const ConfiguredPhase& phase) { return phase.phase.name == name; });
  PLEACH_CHECK(found != configured.phases.end(), name.c_str());
  return *found;
}

// {0,2},{1,4},{3,5} on FRED_2(6), whose conflict is known, and on FRED_3(6), where there is none.
constexpr const char* kConflict = "dp=3,tp=2,placement=0-2-1-4-3-5";
constexpr const char* kOfTwo = "switch_tree:6,switch=fred,middle=2,reduce,multicast";
constexpr const char* kOfThree = "switch_tree:6,switch=fred,middle=3,reduce,multicast";

TEST(SwitchConfigurations, StreamsInConflictTakeTurns) {
  const auto one = configured(topology_of(kOfThree), kConflict);
  EXPECT_EQ(phase_of(one, "tensor").turns.size(), 1U);
  EXPECT_TRUE(phase_of(one, "tensor").conflicts.empty());
  const auto two = configured(topology_of(kOfTwo), kConflict);
  const ConfiguredPhase& tensor = phase_of(two, "tensor");
  ASSERT_EQ(tensor.turns.size(), 2U);
  EXPECT_EQ(tensor.turns[0].groups, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(tensor.turns[1].groups, (std::vector<int32_t>{2}));
  ASSERT_EQ(tensor.conflicts.size(), 1U);
  EXPECT_EQ(tensor.conflicts[0].groups, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tensor.conflicts[0].level, 0);
  EXPECT_TRUE(tensor.conflicts[0].proved);
}

TEST(SwitchConfigurations, StreamsInConflictBecomeRingsOrAnError) {
  const Topology topology = topology_of(kOfTwo);
  const auto rings = configured(topology, kConflict, {.on_conflict = OnConflict::kDecompose});
  EXPECT_TRUE(phase_of(rings, "tensor").turns.empty());
  const ConfiguredPhase& ring = phase_of(rings, "tensor, decomposed");
  EXPECT_EQ(ring.decomposed_from, "tensor");
  EXPECT_EQ(ring.algorithms, (std::vector<std::string>{"ring"}));
  EXPECT_EQ(ring.phase.rounds.front().size(), 3U);
  EXPECT_EQ(ring.turns.size(), 2U);  // the steps of a ring of two
  const auto fails = configure_switches(topology, strategy_of(kConflict, topology),
                                        {.on_conflict = OnConflict::kFail});
  ASSERT_FALSE(fails);
  EXPECT_EQ(fails.error().message,
            "tensor, step 0: switch l1.0 cannot carry at once, level 0: groups 0 (0,2), 1 (1,4), "
            "2 (3,5)");
}

// A group that is in nobody's way stays in the switch.
TEST(SwitchConfigurations, OnlyGroupsInConflictAreDecomposed) {
  const Topology topology = topology_of("switch_tree:8,switch=fred,middle=2,reduce,multicast");
  const auto rings = configured(topology, "dp=4,tp=2,placement=0-2-1-5-3-4-6-7",
                                {.on_conflict = OnConflict::kDecompose});
  EXPECT_EQ(phase_of(rings, "tensor").turns.size(), 1U);
  EXPECT_EQ(phase_of(rings, "tensor").turns[0].groups, (std::vector<int32_t>{3}));
  EXPECT_EQ(phase_of(rings, "tensor, decomposed").phase.rounds.front().size(), 3U);
}

// What goes in by some ports comes out by others, through all switches of a turn: the value on
// each lane of each link.
class Fabric {
 public:
  Fabric(const Topology& topology, const SwitchConfigurations& configured)
      : topology_(topology), configured_(configured) {}

  void send(LinkId link, int64_t value) { values_[{link.value, 0}] = {value}; }
  std::optional<int64_t> comes(LinkId link) const {
    const auto found = values_.find({link.value, 0});
    return found == values_.end() ? std::nullopt : std::optional(found->second.front());
  }

  // Until nothing changes: what passes a switch twice comes back later.
  void run(const ConfiguredTurn& turn) {
    for (auto before = std::optional(values_); before;) {
      for (std::size_t number = 0; number < configured_.switches.size(); ++number) {
        if (turn.index[number] > 0) {
          pass(configured_.switches[number], turn.index[number] - 1);
        }
      }
      before = *before == values_ ? std::nullopt : std::optional(values_);
    }
  }

 private:
  void pass(const ConfiguredSwitch& own, int32_t index) {
    const SwitchPorts ports(topology_, own.node);
    const auto cells = FredSwitch::create(own.size);
    std::vector<std::optional<Payload>> in(at(own.size.ports));
    for (int32_t port = 0; port < ports.input_count(); ++port) {
      const LinkLane lane = ports.lane_of_input(port);
      const auto found = values_.find({lane.link.value, lane.lane});
      if (found != values_.end()) {
        in[at(port)] = found->second;
      }
    }
    const auto out = execute(*cells, own.modes[at(index)], in);
    for (int32_t port = 0; port < ports.output_count(); ++port) {
      if (out[at(port)]) {
        const LinkLane lane = ports.lane_of_output(port);
        values_[{lane.link.value, lane.lane}] = *out[at(port)];
      }
    }
  }

  const Topology& topology_;
  const SwitchConfigurations& configured_;
  std::map<std::pair<int32_t, int32_t>, Payload> values_;
};

// All-reduces over two levels, executed: every rank ends with the sum of its group, so lanes are
// the same at both of their ends.
TEST(SwitchConfigurations, AddWhatTheyAreConfiguredForOverTwoLevels) {
  for (const char* spec :
       {"fred:D", "fred:B",
        "fred:D,without_subnetwork=l1.0:1+l2.0:0.1,without_cell=l1.3:R4+l1.2:2/D0+l2.0:D1",
        "fred:D,without_cell=l2.0:R0+l2.0:D8"}) {
    const Topology topology = topology_of(spec);
    for (const char* strategy : {"dp=20", "tp=20", "tp=10", "tp=7,dp=2,idle=6"}) {
      const auto own = configured(topology, strategy);
      const ConfiguredPhase& phase = own.phases.front();
      ASSERT_EQ(phase.turns.size(), 1U) << strategy;
      Fabric fabric(topology, own);
      std::map<NodeId, int64_t> wanted;
      for (const NodeGroup& group : phase.phase.rounds.front()) {
        int64_t sum = 0;
        for (const NodeId node : group) {
          const int64_t value = int64_t{1} << node.value;
          fabric.send(topology.links_out(node).front(), value);
          sum += value;
        }
        for (const NodeId node : group) {
          wanted[node] = sum;
        }
      }
      fabric.run(phase.turns.front());
      for (const auto& [node, sum] : wanted) {
        EXPECT_EQ(fabric.comes(topology.links_in(node).front()), sum)
            << spec << ' ' << strategy << " rank " << node.value;
      }
    }
  }
}

// A stream whose port is at a dead cell is refused, unicasts too, with the switch and the cell.
TEST(SwitchConfigurations, NameWhatIsDeadInTheWayOfAStream) {
  for (const auto& [spec, strategy] :
       {std::pair("fred:D,without_cell=l1.0:R0", "dp=20"),
        std::pair("fred:C,without_cell=l1.0:R0", "dp=20"),
        std::pair("fred:D,without_cell=l1.0:D0", "dp=10,pp=2,outputs=pairs")}) {
    const Topology topology = topology_of(spec);
    const auto parsed = parse_strategy(strategy, 20);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto made = configure_switches(topology, *parsed);
    ASSERT_FALSE(made) << spec;
    EXPECT_NE(made.error().message.find("switch l1.0 cannot carry a stream of group 0 by itself: "
                                        "dead is "),
              std::string::npos)
        << made.error().message;
  }
}

// Every strategy of twenty: each phase of its ranks flows at once through the wafer's fabric.
TEST(SwitchConfigurations, EveryStrategyOfTheWaferFlowsAtOnce) {
  const Topology topology = topology_of("fred:D,io=0");
  int32_t phases = 0;
  for (int32_t tensor = 1; tensor <= 20; ++tensor) {
    for (int32_t pipeline = 1; pipeline <= 20; ++pipeline) {
      if (20 % (tensor * pipeline) != 0) {
        continue;
      }
      const auto own = configured(topology, "outputs=multicast,tp=" + std::to_string(tensor) +
                                                ",pp=" + std::to_string(pipeline));
      for (const ConfiguredPhase& phase : own.phases) {
        ++phases;
        EXPECT_EQ(phase.turns.size(), 1U) << tensor << ' ' << pipeline << ' ' << phase.phase.name;
      }
    }
  }
  EXPECT_EQ(phases, 48);
}

TEST(SwitchConfigurations, TheSameFlowsHaveOneIndexAndUnicastsNone) {
  const auto own = configured(topology_of("fred:D"), "dp=5,tp=2,pp=2,outputs=multicast");
  const auto used = [&](int32_t number, const std::string& name) {
    std::set<int32_t> indices;
    for (const ConfiguredTurn& turn : phase_of(own, name).turns) {
      indices.insert(turn.index[at(number)]);
    }
    return indices;
  };
  EXPECT_EQ(used(0, "tensor"), std::set<int32_t>{1});
  EXPECT_EQ(used(0, "data"), std::set<int32_t>{kUnicast});  // one rank of each group
  EXPECT_EQ(used(5, "tensor"), std::set<int32_t>{kIdle});   // within leaves
  EXPECT_EQ(phase_of(own, "stream in").turns.size(), 18U);
  EXPECT_LT(used(0, "stream in").size(), 18U);
  EXPECT_EQ(own.switches[0].size, (FredSize{12, 3}));
  EXPECT_EQ(own.switches[0].capacity, 39);  // 12,288 / 309
  EXPECT_TRUE(own.switches[0].fits());
  EXPECT_EQ(own.switches[5].size, (FredSize{20, 3}));
  EXPECT_FALSE(own.switches[5].fits());
  const auto published = configured(topology_of("fred:D"), "dp=20", {.bits = BitCount::kPublished});
  EXPECT_EQ(published.switches[0].capacity, 54);  // 12,288 / 225
}

// Serial reductions: one stream, and so one configuration, a step.
TEST(SwitchConfigurations, ShardsAreReducedOneAfterTheOther) {
  const auto own =
      configured(topology_of("switch_tree:4,switch=fred,reduce,multicast"), "dp=4,zero=2");
  ASSERT_EQ(own.phases.size(), 2U);
  EXPECT_EQ(own.phases[0].phase.collective, CollectiveKind::kReduceScatter);
  EXPECT_EQ(own.phases[1].phase.collective, CollectiveKind::kAllGather);
  for (const ConfiguredPhase& phase : own.phases) {
    EXPECT_EQ(phase.step_count, 4);
    EXPECT_EQ(phase.turns.size(), 4U);
  }
  EXPECT_EQ(own.switches[0].flows.size(), 8U);
}

// What little a search may try depends on the order of flows: who has joined a turn in one order
// has a configuration all the same.
TEST(SwitchConfigurations, TakeWhatASearchFoundThatIsCutShort) {
  const Topology topology = topology_of("fred:D,middle=2");
  const std::string strategy =
      "dp=2,pp=10,outputs=multicast,placement=17-0-5-12-6-8-7-3-11-2-9-19-4-13-18-10-14-16-15-1";
  for (const int64_t budget : {0, 1, 2, 3, 5, 8}) {
    for (const bool goes_back : {false, true}) {
      SCOPED_TRACE(testing::Message() << "budget " << budget << ", goes back " << goes_back);
      const auto own =
          configured(topology, strategy, {.routing = {.budget = budget, .goes_back = goes_back}});
      const ConfiguredPhase& data = phase_of(own, "data");
      std::size_t groups = 0;
      for (const ConfiguredTurn& turn : data.turns) {
        groups += turn.groups.size();
      }
      EXPECT_EQ(groups, data.phase.rounds.front().size());
    }
  }
}

// A trunk of one lane carries one stream at a time.
TEST(SwitchConfigurations, NamesATrunkWithoutALaneForEach) {
  const Topology topology = topology_of("switch_tree:2x2,switch=fred,reduce,multicast,lanes=1");
  const auto own = configured(topology, "dp=2,tp=2");
  EXPECT_EQ(phase_of(own, "tensor").turns.size(), 1U);
  const ConfiguredPhase& data = phase_of(own, "data");
  EXPECT_EQ(data.turns.size(), 2U);
  ASSERT_EQ(data.conflicts.size(), 1U);
  EXPECT_EQ(data.conflicts[0].node.value, -1);
  EXPECT_TRUE(data.conflicts[0].proved);
  EXPECT_EQ(conflict_text(topology, data.phase, data.conflicts[0]),
            "data, step 0: link l1.0->l2.0 has 1 lane: not one each for groups 0 (0,2), 1 (1,3)");
}

// Streams that come one after the other take lanes on which the last one fits nowhere.
TEST(SwitchConfigurations, FindsLanesForAllStreamsTogether) {
  const struct {
    std::string topology;
    std::string strategy;
  } cases[] = {
      {"fred:D,npus=12,radix=3,middle=2,io=0", "tp=3,dp=4,placement=0-7-2-4-3-5-10-6-9-8-1-11"},
      {"fred:D,npus=12,radix=3,middle=2,io=0", "tp=5,dp=2,idle=2,placement=10-0-1-6-9-8-11-7-4-2"},
      {"fred:D,npus=15,radix=3,middle=2,io=0",
       "tp=3,dp=5,placement=10-0-7-11-8-9-12-5-14-2-13-1-4-6-3"}};
  for (const auto& one : cases) {
    const auto own = configured(topology_of(one.topology), one.strategy);
    EXPECT_TRUE(phase_of(own, "data").conflicts.empty()) << one.strategy;
    EXPECT_EQ(phase_of(own, "data").turns.size(), 1U) << one.strategy;
  }
}

// Unicasts that share a port alternate: nothing waits, and nothing is configured.
// Link by link, as something is dead: more often than a search for lanes asks of most.
TEST(SwitchConfigurations, FindsLanesOfAStreamThroughManySwitches) {
  const auto own = configured(topology_of("switch_tree:80x3,lanes=3,switch=fred,middle=2,reduce,"
                                          "multicast,without_subnetwork=l1.0:0"),
                              "dp=80,tp=3");
  ASSERT_EQ(own.phases.size(), 2U);
  EXPECT_EQ(own.phases.back().turns.size(), 3U);
  EXPECT_EQ(own.phases.back().conflicts.size(), 1U);
}

TEST(SwitchConfigurations, UnicastsAlternate) {
  const auto own =
      configured(topology_of("fred:C,io=0"), "dp=5,tp=4,ep=5", {.algorithms = {"direct"}});
  for (const ConfiguredPhase& phase : own.phases) {
    EXPECT_TRUE(phase.conflicts.empty()) << phase.phase.name;
    EXPECT_EQ(count_of(phase.turns), phase.step_count) << phase.phase.name;
    for (const ConfiguredTurn& turn : phase.turns) {
      EXPECT_EQ(turn.groups.size(), phase.phase.rounds.front().size());
      EXPECT_LE(*std::ranges::max_element(turn.index), kUnicast);
    }
  }
  EXPECT_EQ(phase_of(own, "tensor").turns.front().index.back(), kIdle);  // within leaves
  EXPECT_EQ(phase_of(own, "expert").turns.front().index.back(), kUnicast);
}

TEST(SwitchConfigurations, RefusesWhatTheTopologyLacks) {
  const Topology topology = topology_of("switch_tree:4,switch=fred,reduce,multicast");
  const auto result = configure_switches(topology, {.data = 5});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            topology.name() + ": rank 4 of a strategy of dp=5: the topology has 4 ranks");
}

}  // namespace
}  // namespace pleach
