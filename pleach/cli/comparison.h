// Several algorithms, sizes, topologies or models in one table.
#pragma once

#include <string>
#include <vector>

#include "pleach/cli/common.h"

namespace pleach {

// Compares `sources`, specs and files; on --topology, all of them; at --sizes, or else --size; with
// the options of declare_timing() and declare_collective(). Prints the outcome, as --json asks for,
// writes what --csv asks for, and a picture of it into `plot_file`, unless that is empty.
Result<ExitCode> print_comparison(const CommandLine& line, const Invocation& invocation,
                                  const std::vector<std::string>& sources,
                                  const std::string& plot_file = "");

}  // namespace pleach
