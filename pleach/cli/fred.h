// pleach fred ACTION: FRED switches, looked into. One file per action.
#pragma once

#include <vector>

#include "pleach/cli/command_line.h"
#include "pleach/report/fred.h"

namespace pleach {

Command fred_route_command();
Command fred_show_command();
Command fred_flows_command();
Command fred_study_command();
Command fred_compile_command();

// --ports, --middle.
void declare_fred(CommandLine& line);
Result<FredSize> fred_size(const CommandLine& line);
// --budget, --search.
void declare_search(CommandLine& line);
Result<RouteOptions> route_options(const CommandLine& line);

// Routes, configures, and holds the configuration to its checker. Borrows the switch.
FredRouting routed(const FredSwitch& fred, std::vector<PortFlow> flows,
                   const RouteOptions& options);
// "yes", "no: of flows 0, 1, 2 none can be left out (level 0)", ...
std::string routed_text(const FlowRouting& routing);

}  // namespace pleach
