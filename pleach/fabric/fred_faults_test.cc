#include "pleach/fabric/fred_faults.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/fabric/configuration.h"
#include "pleach/fabric/conflict_check.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/online_unicast.h"
#include "pleach/fabric/route_heuristic.h"
#include "tests/support/random_flows.h"

namespace pleach {
namespace {

using support::ModeTrial;
using support::random_faults;
using support::random_flows;

FredSize size_of(int32_t ports, int32_t middle, std::string_view cells,
                 std::string_view subnetworks) {
  const FredSize size = {ports, middle};
  const auto dead = parse_faults(size, cells, subnetworks);
  EXPECT_TRUE(dead) << dead.error().message;
  return {ports, middle, *dead};
}

std::string text_of(const FredSize& size, const std::vector<PortFlow>& flows) {
  return size.text() + " without " + faults_text(size, size.dead) + ": " + flows_text(flows);
}

// Routes, and holds what comes out to the checkers.
FlowRouting checked(const FredSize& size, const std::vector<PortFlow>& flows) {
  FlowRouting routing = route_flows(size, flows);
  EXPECT_TRUE(routing.proved) << text_of(size, flows);
  EXPECT_EQ(routing.routed, routing.conflicts.empty());
  if (routing.routed) {
    const FredSwitch fred = FredSwitch::create(size).value();
    const Status status = check_configuration(fred, flows, configure(fred, flows, routing.choices));
    EXPECT_TRUE(status) << text_of(size, flows) << ": " << status.error().message;
  }
  for (const FlowConflict& conflict : routing.conflicts) {
    EXPECT_TRUE(conflict.is_least);
    const Status status = check_conflict(size, flows, conflict);
    EXPECT_TRUE(status) << text_of(size, flows) << ": " << status.error().message;
  }
  return routing;
}

TEST(FredFaults, AreNamedAsCellsAre) {
  for (int32_t ports = 2; ports <= 13; ++ports) {
    for (const int32_t middle : {2, 3, 11}) {
      const FredSwitch fred = FredSwitch::create({ports, middle}).value();
      std::string names;
      for (const FredCell& cell : fred.cells()) {
        names += (names.empty() ? "" : "+") + fred.name_of(cell);
      }
      const auto read = parse_faults(fred.size(), names, "");
      ASSERT_TRUE(read) << read.error().message;
      std::vector<FredCell> cells(fred.cells().begin(), fred.cells().end());
      std::ranges::sort(cells);
      EXPECT_EQ(read->cells, cells);
    }
  }
  const FredSize size = size_of(12, 3, "2.0/R0+R3+0.1/mux", "1+0.2");
  EXPECT_EQ(size.dead.cells, (std::vector<FredCell>{{CellKind::kReduce, 0, 0, 3},
                                                    {CellKind::kReduce, 2, 6, 0},
                                                    {CellKind::kMux, 2, 1, 0}}));
  EXPECT_EQ(size.dead.subnetworks, (std::vector<FredSubnetwork>{{1, 1}, {2, 2}}));
  EXPECT_EQ(faults_text(size, size.dead),
            "R3 (input ports 6, 7), 2.0/R0, 0.1/mux, subnetwork 1, subnetwork 0.2");
  EXPECT_EQ(faults_text({2, 3}, size_of(2, 3, "RD", "").dead),
            "RD (input ports 0, 1; output ports 0, 1)");
  EXPECT_EQ(dead_outputs(size_of(5, 2, "mux+D0", "")), (std::vector{0, 1, 4}));
}

TEST(FredFaults, AreRefusedInOneLine) {
  const struct {
    FredSize size;
    const char* cells;
    const char* subnetworks;
    const char* error;
  } cases[] = {
      {{12, 3},
       "R6",
       "",
       "there is no cell 'R6' in FRED_3(12): its outermost level has R0 to R5, D0 to D5"},
      {{12, 3},
       "R",
       "",
       "there is no cell 'R' in FRED_3(12): its outermost level has R0 to R5, D0 to D5"},
      {{12, 3},
       "R03",
       "",
       "there is no cell 'R03' in FRED_3(12): its outermost level has R0 to R5, D0 to D5"},
      {{12, 3},
       "2.1/demux1",
       "",
       "there is no cell '2.1/demux1' in FRED_3(12): subnetwork 2.1 has R0, demux, D0, mux"},
      {{12, 3},
       "2.1.0/R0",
       "",
       "there is no cell '2.1.0/R0' in FRED_3(12): subnetwork 2.1.0 has RD"},
      {{12, 3},
       "3/R0",
       "",
       "there is no subnetwork '3' in FRED_3(12): they are numbers from 0 to 2, outermost first, "
       "of 3 levels, as 1 or 1.0"},
      {{12, 3}, "R3+R3", "", "cell 'R3' is named twice"},
      {{12, 3},
       "R3+",
       "",
       "there is no cell '' in FRED_3(12): its outermost level has R0 to R5, D0 to D5"},
      {{12, 3},
       "",
       "1.0.2.0",
       "there is no subnetwork '1.0.2.0' in FRED_3(12): they are numbers from 0 to 2, outermost "
       "first, of 3 levels, as 1 or 1.0"},
      {{12, 3},
       "",
       "-1",
       "there is no subnetwork '-1' in FRED_3(12): they are numbers from 0 to 2, outermost first, "
       "of 3 levels, as 1 or 1.0"},
      {{3, 2},
       "",
       "0+00",
       "there is no subnetwork '00' in FRED_2(3): they are numbers from 0 to 1, outermost first, "
       "of 1 level, as 1 or 1.0"},
      {{12, 3}, "", "1+1", "subnetwork '1' is named twice"},
      {{2, 3}, "", "0", "there is no subnetwork '0' in FRED_3(2): it is one cell, RD"},
      {{2, 3}, "R0", "", "there is no cell 'R0' in FRED_3(2): its outermost level has RD"},
  };
  for (const auto& [size, cells, subnetworks, error] : cases) {
    const auto read = parse_faults(size, cells, subnetworks);
    ASSERT_FALSE(read) << cells << " " << subnetworks;
    EXPECT_EQ(read.error().message, error);
  }
  EXPECT_FALSE(FredSwitch::create({12, 3, {{{CellKind::kReduce, 0, 0, 6}}, {}}}));
  EXPECT_FALSE(check_faults({12, 3, {{}, {{1, 1}, {1, 0}}}}));
}

TEST(FredFaults, NumberAllCellsThrough) {
  for (int32_t ports = 2; ports <= 13; ++ports) {
    const FredSwitch fred = FredSwitch::create({ports, 3}).value();
    std::vector<FredCell> numbered;
    for (int64_t number = 0; number < fred.count().cells; ++number) {
      numbered.push_back(cell_at(fred.size(), number));
    }
    std::vector<FredCell> cells(fred.cells().begin(), fred.cells().end());
    std::erase_if(cells, [](const FredCell& cell) {
      return cell.kind == CellKind::kDemux || cell.kind == CellKind::kMux;
    });
    std::ranges::sort(numbered);
    std::ranges::sort(cells);
    EXPECT_EQ(numbered, cells);
  }
}

// Whatever is written, it is refused or is the name of what comes out.
TEST(FredFaults, ReadNamesOfAnyLetters) {
  Rng rng(11);
  constexpr std::string_view kLetters = "RDdemux0123./+ -x";
  int32_t read_count = 0;
  for (int32_t round = 0; round < 20'000; ++round) {
    std::string text;
    for (auto left = rng.below(8); left > 0; --left) {
      text += kLetters[rng.below(kLetters.size())];
    }
    const FredSize size = {2 + static_cast<int32_t>(rng.below(9)),
                           2 + static_cast<int32_t>(rng.below(3))};
    for (const bool is_cell : {true, false}) {
      const auto read = parse_faults(size, is_cell ? text : "", is_cell ? "" : text);
      if (!read || text.find('+') != std::string::npos || text.empty()) {
        continue;
      }
      ++read_count;
      EXPECT_EQ(
          is_cell ? name_of(size, read->cells.front()) : name_of(size, read->subnetworks.front()),
          text);
    }
  }
  EXPECT_GT(read_count, 100);
}

// The modes of all cells that are alive, and all ways of all flows, agree with the router.
TEST(FredFaults, AreKeptOutOfByTheRouterAsByABruteForce) {
  Rng rng(21);
  int32_t routed = 0, alone = 0, refused = 0, deeper = 0;
  for (int32_t round = 0; round < 6000; ++round) {
    const int32_t middle = 2 + static_cast<int32_t>(rng.below(2));
    const int32_t ports = 2 + static_cast<int32_t>(rng.below(7));
    const FredSwitch fred = FredSwitch::create({ports, middle}).value();
    const FredSize size = {ports, middle,
                           random_faults(fred, 1 + static_cast<int32_t>(rng.below(4)), rng)};
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    const FlowRouting routing = checked(size, flows);
    const auto by_trial = route_by_trial(size, flows, size.levels(), 1'000'000);
    ASSERT_TRUE(by_trial.has_value());
    EXPECT_EQ(routing.routed, *by_trial) << text_of(size, flows);
    if (ports <= (middle == 2 ? 8 : 6)) {
      EXPECT_EQ(routing.routed, ModeTrial(middle, size.dead).routes(ports, flows))
          << text_of(size, flows);
    }
    routed += routing.routed ? 1 : 0;
    for (const FlowConflict& conflict : routing.conflicts) {
      (conflict.flows.size() == 1 ? alone : refused) += 1;
      deeper += conflict.level > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(routed, 1000);
  EXPECT_GT(alone, 1000);
  EXPECT_GT(refused, 300);
  EXPECT_GT(deeper, 50);
}

// Without the last subnetwork of every one, FRED_3 is FRED_2.
TEST(FredFaults, LeaveASwitchWithASmallerMiddle) {
  Rng rng(31);
  int32_t refused = 0;
  for (int32_t round = 0; round < 2000; ++round) {
    const int32_t ports = 3 + static_cast<int32_t>(rng.below(14));
    FredSize size = {ports, 3};
    int32_t subnetworks = 3;
    for (int32_t level = 1; level <= size.levels(); ++level, subnetworks *= 3) {
      for (int32_t number = static_cast<int32_t>(rng.below(3)); number < subnetworks; number += 3) {
        size.dead.subnetworks.push_back({level, number});
      }
    }
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    const FlowRouting smaller = route_flows({ports, 2}, flows);
    EXPECT_EQ(checked(size, flows).routed, smaller.routed) << text_of(size, flows);
    refused += smaller.routed ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

// Each dead part below the outermost stages is in one subnetwork: the others carry all unicasts
// where they are two.
TEST(FredFaults, LeaveUnicastsTheirWay) {
  for (int32_t ports = 3; ports <= 6; ++ports) {
    for (const char* dead : {"0", "1", "2"}) {
      const FredSize size = size_of(ports, 3, "", dead);
      support::for_each_permutation(ports, [&](const std::vector<PortFlow>& flows) {
        ASSERT_TRUE(route_flows(size, flows).routed) << text_of(size, flows);
      });
    }
  }
  Rng rng(41);
  for (int32_t round = 0; round < 500; ++round) {
    const int32_t ports = 3 + static_cast<int32_t>(rng.below(18));
    const auto count = static_cast<int32_t>(rng.below(4));
    const FredSwitch fred = FredSwitch::create({ports, 2 + count}).value();
    FredSize size = {ports, 2 + count, random_faults(fred, count, rng)};
    std::erase_if(size.dead.cells, [](const FredCell& cell) { return cell.level == 0; });
    const std::vector<int32_t> outputs = support::shuffled_ports(ports, rng);
    std::vector<PortFlow> flows;
    for (int32_t port = 0; port < ports; ++port) {
      flows.push_back({{port}, {outputs[at(port)]}});
    }
    EXPECT_TRUE(checked(size, flows).routed) << text_of(size, flows);
  }
}

TEST(FredFaults, AreNamedWhereTheyAreInTheWay) {
  Rng rng(51);
  int32_t named = 0;
  for (int32_t round = 0; round < 600; ++round) {
    const int32_t ports = 2 + static_cast<int32_t>(rng.below(9));
    const FredSwitch fred = FredSwitch::create({ports, 3}).value();
    const FredSize size = {ports, 3,
                           random_faults(fred, 1 + static_cast<int32_t>(rng.below(8)), rng)};
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    if (route_flows(size, flows).routed) {
      continue;
    }
    const FredFaults found = faults_in_the_way(size, flows);
    EXPECT_FALSE(route_flows({ports, 3, found}, flows).routed) << text_of(size, flows);
    for (std::size_t part = 0; part < found.cells.size(); ++part) {
      FredFaults fewer = found;
      fewer.cells.erase(fewer.cells.begin() + static_cast<std::ptrdiff_t>(part));
      EXPECT_TRUE(route_flows({ports, 3, fewer}, flows).routed) << text_of(size, flows);
    }
    for (std::size_t part = 0; part < found.subnetworks.size(); ++part) {
      FredFaults fewer = found;
      fewer.subnetworks.erase(fewer.subnetworks.begin() + static_cast<std::ptrdiff_t>(part));
      EXPECT_TRUE(route_flows({ports, 3, fewer}, flows).routed) << text_of(size, flows);
    }
    named += found.empty() ? 0 : 1;
  }
  EXPECT_GT(named, 200);
}

TEST(FredFaults, AreUsedByNoConfiguration) {
  const std::vector<PortFlow> flows = parse_flows("0,2->0,2; 1->3", 8).value();
  const FlowRouting routing = route_flows({8, 2}, flows);
  const FredSwitch sound = FredSwitch::create({8, 2}).value();
  const Configuration modes = configure(sound, flows, routing.choices);
  ASSERT_TRUE(check_configuration(sound, flows, modes));
  for (const std::vector<int32_t>& way : ways_of(sound, flows, modes)) {
    for (const int32_t cell : way) {
      const FredCell& dead = sound.cells()[at(cell)];
      const FredSwitch fred = FredSwitch::create({8, 2, {{dead}, {}}}).value();
      const Status status = check_configuration(fred, flows, modes);
      ASSERT_FALSE(status);
      EXPECT_NE(status.error().message.find("is dead, and is to do"), std::string::npos)
          << status.error().message;
      std::vector<std::optional<Payload>> payloads(8);
      payloads[0] = payloads[1] = payloads[2] = Payload{1};
      EXPECT_NE(execute(fred, modes, payloads), execute(sound, modes, payloads));
    }
  }
  // A subnetwork is dead with all that is in it.
  const FredSwitch fred = FredSwitch::create(size_of(8, 2, "", "1")).value();
  int32_t dead = 0;
  for (int32_t cell = 0; cell < count_of(fred.cells()); ++cell) {
    dead += fred.is_dead(cell) ? 1 : 0;
  }
  EXPECT_EQ(dead, count_cells({4, 2})->cells);
  EXPECT_FALSE(check_configuration(fred, flows, modes));
}

// Calls that come and go keep out of what is dead; two sound subnetworks more than a call can meet
// others in, and none is ever blocked.
TEST(FredFaults, AreKeptOutOfByCallsThatComeAndGo) {
  for (const auto policy : {OnlineUnicast::Policy::kFirstFit, OnlineUnicast::Policy::kRearrange}) {
    const bool moves = policy == OnlineUnicast::Policy::kRearrange;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Rng rng(seed);
      const int32_t ports = 3 + static_cast<int32_t>(rng.below(10));
      const int32_t middle = moves ? 3 : 4;
      FredSize size = {ports, middle};
      size.dead = random_faults(FredSwitch::create(size).value(), 1, rng);
      const FredSwitch fred = FredSwitch::create(size).value();
      OnlineUnicast unicasts(size, policy);
      for (int32_t call = 0; call < 60; ++call) {
        const auto input = static_cast<int32_t>(rng.below(at(ports)));
        const auto output = static_cast<int32_t>(rng.below(at(ports)));
        if (!unicasts.is_idle(input, output)) {
          unicasts.disconnect(input);
          continue;
        }
        const bool is_cut = std::ranges::count(dead_inputs(size), input) > 0 ||
                            std::ranges::count(dead_outputs(size), output) > 0;
        EXPECT_EQ(unicasts.connect(input, output).has_value(), !is_cut)
            << faults_text(size, size.dead) << " " << input << ">" << output;
        std::vector<PortFlow> flows;
        std::vector<int32_t> choices;
        for (int32_t port = 0; port < ports; ++port) {
          if (unicasts.output_of(port) >= 0) {
            flows.push_back({{port}, {unicasts.output_of(port)}});
            choices.insert(choices.end(), unicasts.choices(port).begin(),
                           unicasts.choices(port).end());
          }
        }
        const Status status = check_configuration(fred, flows, configure(fred, flows, choices));
        ASSERT_TRUE(status) << status.error().message;
      }
    }
  }
}

// Where the exact search may try nothing, the other one keeps out of dead parts too.
TEST(FredFaults, AreKeptOutOfByTheHeuristic) {
  Rng rng(61);
  int32_t routed = 0;
  for (int32_t round = 0; round < 300; ++round) {
    const int32_t ports = 6 + static_cast<int32_t>(rng.below(7));
    const FredSwitch sound = FredSwitch::create({ports, 3}).value();
    const FredSize size = {ports, 3, random_faults(sound, 3, rng)};
    const std::vector<PortFlow> flows = random_flows(ports, rng);
    SearchBudget budget = {2000};
    if (const auto choices = look_for_choices(size, flows, budget)) {
      const FredSwitch fred = FredSwitch::create(size).value();
      const Status status = check_configuration(fred, flows, configure(fred, flows, *choices));
      EXPECT_TRUE(status) << text_of(size, flows) << ": " << status.error().message;
      ++routed;
    } else {
      EXPECT_FALSE(route_flows(size, flows).routed && flows.size() < 3) << text_of(size, flows);
    }
  }
  EXPECT_GT(routed, 50);
}

}  // namespace
}  // namespace pleach
