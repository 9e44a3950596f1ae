// pleach compare: algorithms x sizes x topologies, side by side.
#include <algorithm>

#include "pleach/cli/comparison.h"
#include "pleach/cli/timing_options.h"

namespace pleach {
namespace {

// Those of --algorithm, or all that do the collective.
Result<std::vector<std::string>> sources_of(const CommandLine& line) {
  if (line.given("--algorithm")) {
    return schedule_sources(line);
  }
  PLEACH_ASSIGN(collective, line.value("--collective", parse_collective));
  std::vector<std::string> names = algorithms().names();
  std::erase_if(names, [&](const std::string& name) { return !algorithm_does(name, collective); });
  return names;
}

Result<ExitCode> run_compare(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.repeated_option("--topology", "where: torus:4x4, cluster.toml; again for another one");
  line.option("--algorithm",
              "ring,multitree,step_rule=published, or schedule files; none: all that can");
  line.option("--sizes", "whole buffers: 1KiB:256MiB:4 (from, to, factor) or a list",
              "1KiB:256MiB:64");
  declare_collective(line);
  declare_timing(line, "auto");
  line.option("--csv", "folder for comparison.csv");
  line.option("--plot", "picture of algbw over the size: FILE.svg");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const std::string& plot_file = line.text("--plot");
  if (line.given("--plot") && !plot_file.ends_with(".svg")) {
    return invalid("--plot", pleach::quoted(plot_file) + " does not end in .svg");
  }
  PLEACH_ASSIGN(sources, sources_of(line));
  return print_comparison(line, invocation, sources, plot_file);
}

}  // namespace

extern const Command kCompareCommand = {
    "compare", "algorithms, sizes, topologies and models side by side",
    "  pleach compare --topology torus:4x4\n"
    "  pleach compare --topology torus:4x4 --topology mesh:4x4 --algorithm ring,multitree\n"
    "  pleach compare --topology dgx_h100:2 --collective all_to_all --sizes 1MiB,64MiB\n"
    "  pleach compare --topology torus:8x8 --sizes 64KiB:64MiB:8 --plot torus.svg --csv tables\n",
    run_compare};

}  // namespace pleach
