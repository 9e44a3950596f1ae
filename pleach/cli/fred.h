// pleach fred ACTION: FRED switches, looked into. One file per action.
#pragma once

#include <vector>

#include "pleach/cli/command_line.h"
#include "pleach/cli/table.h"
#include "pleach/report/fred.h"

namespace pleach {

Command fred_route_command();
Command fred_show_command();
Command fred_flows_command();
Command fred_study_command();
Command fred_compile_command();

// --ports, --middle, --without-cell, --without-subnetwork.
void declare_fred(CommandLine& line);
Result<FredSize> fred_size(const CommandLine& line);
void declare_dead(CommandLine& line);
Result<FredFaults> dead_parts(const CommandLine& line, const FredSize& size);
// --budget, --search.
void declare_search(CommandLine& line);
Result<RouteOptions> route_options(const CommandLine& line);

// What of the switch is dead, if anything is.
void add_dead(Facts& facts, const FredSwitch& fred);

// Routes, configures, and holds the configuration to its checker. Borrows the switch.
FredRouting routed(const FredSwitch& fred, std::vector<PortFlow> flows,
                   const RouteOptions& options);
// "yes", "no: flows 0, 1, 2 are in each other's way at level 0; none of them can be left out", ...
std::string routed_text(const FredRouting& result);

}  // namespace pleach
