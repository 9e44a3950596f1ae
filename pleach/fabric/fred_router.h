// Routing: which way flows take through a FRED switch at once, or which of them are in each other's
// way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

struct RouteOptions {
  // Choices that the exact search may try; as many again for leaving out what a conflict does not
  // need, and as many for the heuristic where the search gave up. Large switches get more: a few
  // per flow and level.
  int64_t budget = 2'000'000;
  // Where a level below refuses a colouring, another one is tried; false: the first colouring of
  // each level is all that is tried, as the paper has it.
  bool goes_back = true;
};

// Flows that do not route.
struct FlowConflict {
  int32_t level = 0;           // the first levels, to this one, refuse them; those before it do not
  std::vector<int32_t> flows;  // ascending
  bool is_least = false;       // without any one of them the others route
};

struct FlowRouting {
  bool routed = false;
  // Certain: there is a configuration, or no choice is left untried. false: the search gave up.
  bool proved = false;
  std::vector<FlowConflict> conflicts;  // one where it is proved that they do not route, else none
  // Of each flow its subnetwork at each level, outermost first: size.levels() numbers a flow.
  std::vector<int32_t> choices;
  int64_t steps = 0;
};

// Routes `flows` through FRED_m(P), all at once, past what of it is dead.
//   flows    pass check_flows(); `size` passes count_cells() and check_faults()
//   returns  the same for the same flows and options, whatever the machine
//   cost     polynomial where the first colouring does; else within the budget
//   threads  safe: no shared state
//   source   FRED, sec. 5.2 (recursive conflict graphs); which colouring, and going back across
//            levels, are ours: docs/fred.md
FlowRouting route_flows(const FredSize& size, std::span<const PortFlow> flows,
                        const RouteOptions& options = {});

// Of flows that do not route: what of `size.dead` has a part in that. Were one of these parts alive
// beside all the others, they would route, but where the budget ended first. Empty: the flows do
// not route in a sound switch either.
FredFaults faults_in_the_way(const FredSize& size, std::span<const PortFlow> flows,
                             const RouteOptions& options = {});

}  // namespace pleach
