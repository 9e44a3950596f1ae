// pleach fred compile: what each switch of a network is configured for in a training.
#include <fmt/core.h>

#include <array>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/cli/common.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/report/switch_configurations.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

constexpr int64_t kMostReconfigurationPs = 1'000'000'000'000;

void declare(CommandLine& line) {
  declare_topology(line);
  line.option("--strategy", "dp=5,tp=2,pp=2,outputs=multicast; all ranks dp if not given");
  line.option("--algorithm", "of each group the first of several that does it",
              "in_switch,ring,direct");
  line.option("--on-conflict",
              "what streams do that switches cannot carry at once: wait, in turns; decompose, into "
              "rings of the groups' ranks; fail",
              "wait");
  line.option("--memory", "of a switch's configurations",
              std::to_string(kConfigurationMemoryBytes));
  line.option("--bits", "of a cell's mode: exact, what tells all apart; published, 3 of every cell",
              "exact");
  line.option("--reconfiguration", "time in which a switch changes its configuration", "0s");
  declare_search(line);
  line.json_flag();
}

Result<ConfigureOptions> configure_options(const CommandLine& line) {
  ConfigureOptions options;
  PLEACH_SET(options.algorithms, line.value("--algorithm", split_specs));
  PLEACH_SET(options.on_conflict, line.value("--on-conflict", [](const std::string& text) {
    return parse_on_conflict(text);
  }));
  PLEACH_SET(options.memory_bytes, configuration_memory(line));
  const std::array<std::string, 2> known = {"exact", "published"};
  const std::string& bits = line.text("--bits");
  if (bits != known[0] && bits != known[1]) {
    return prefixed("--bits", unknown_name("count of bits", bits, known));
  }
  options.bits = bits == known[0] ? BitCount::kExact : BitCount::kPublished;
  PLEACH_SET(options.routing, route_options(line));
  return options;
}

std::string phases_text(const ConfigurationsReport& report) {
  using enum Table::Align;
  Table table({{"  phase", kLeft},
               {"collective", kLeft},
               {"groups", kRight},
               {"algorithm", kLeft},
               {"steps", kRight},
               {"turns", kRight},
               {"changes", kRight},
               {"most on a link", kLeft}});
  for (const ConfiguredPhase& phase : report.configured.phases) {
    std::size_t groups = 0;
    for (const std::vector<NodeGroup>& round : phase.phase.rounds) {
      groups += round.size();
    }
    const std::string link = phase.load.streams == 0
                                 ? ""
                                 : fmt::format("{} on {}", phase.load.streams,
                                               link_name(report.topology, phase.load.link));
    table.add({"  " + phase.phase.name, std::string(to_text(phase.phase.collective)),
               std::to_string(groups),
               phase.algorithms.empty() ? "messages" : join(phase.algorithms, ","),
               std::to_string(phase.step_count), std::to_string(phase.turns.size()),
               std::to_string(most_changes(phase)), link});
  }
  return table.text();
}

std::string configurations_text(const ConfigurationsReport& report) {
  using enum Table::Align;
  Table table({{"  switch", kLeft}, {"index", kRight}, {"phases", kLeft}, {"flows", kLeft}});
  const std::vector<ConfiguredSwitch>& switches = report.configured.switches;
  for (int32_t number = 0; number < count_of(switches); ++number) {
    const ConfiguredSwitch& own = switches[at(number)];
    const std::string& name = report.topology.node(own.node).name;
    const std::vector<std::string> online = users_of(report.configured, number, kUnicast);
    if (!online.empty()) {
      table.add({"  " + name, "0", join(online, ", "), "unicast, online"});
    }
    for (int32_t index = 1; index <= count_of(own.flows); ++index) {
      table.add({"  " + name, std::to_string(index),
                 join(users_of(report.configured, number, index), ", "),
                 flows_text(own.flows[at(index - 1)])});
    }
  }
  return table.text();
}

std::string memory_text(const ConfigurationsReport& report) {
  using enum Table::Align;
  Table table({{"  switch", kLeft},
               {"cells", kLeft},
               {"bits", kRight},
               {"configurations", kRight},
               {"room for", kRight},
               {"", kLeft}});
  for (const ConfiguredSwitch& own : report.configured.switches) {
    table.add({"  " + report.topology.node(own.node).name, own.size.text(),
               std::to_string(configuration_bits(own.size, report.options.bits)),
               std::to_string(own.flows.size()), std::to_string(own.capacity),
               own.fits() ? "" : "does not fit"});
  }
  return table.text();
}

std::string text_of(const ConfigurationsReport& report) {
  Facts facts;
  facts.add("topology", report.topology.name());
  facts.add("strategy", to_text(report.strategy));
  facts.add("memory", fmt::format("{} bytes a switch", report.options.memory_bytes));
  if (report.reconfiguration_ps > 0) {
    int64_t changes = 0;
    for (const ConfiguredPhase& phase : report.configured.phases) {
      changes += most_changes(phase);
    }
    facts.add("reconfiguration", fmt::format("{} in a pass of each phase, {} each",
                                             format_time(changes * report.reconfiguration_ps),
                                             format_time(report.reconfiguration_ps)));
  }
  std::string text = facts.text() + "\n" + phases_text(report);
  std::string conflicts;
  for (const ConfiguredPhase& phase : report.configured.phases) {
    if (phase.conflicts.empty()) {
      continue;
    }
    conflicts += "  " + conflict_text(report.topology, phase.phase, phase.conflicts.front());
    const std::size_t more = phase.conflicts.size() - 1;
    conflicts += more == 0 ? "\n" : fmt::format("; and {} more\n", more);
  }
  text += conflicts.empty() ? "" : "\n" + conflicts;
  if (report.configured.switches.empty()) {
    return text + "\nno switch has configurations\n";
  }
  return text + "\n" + memory_text(report) + "\n" + configurations_text(report);
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(options, configure_options(line));
  PLEACH_ASSIGN(topology, line.value("--topology", load_topology));
  PLEACH_ASSIGN(strategy, strategy_option(line, count_of(topology.rank_nodes()), &topology));
  PLEACH_ASSIGN(reconfiguration_ps, line.value("--reconfiguration", parse_time_ps));
  if (reconfiguration_ps > kMostReconfigurationPs) {
    return invalid(fmt::format("--reconfiguration {} is over {}",
                               pleach::quoted(line.text("--reconfiguration")),
                               format_time(kMostReconfigurationPs)));
  }
  PLEACH_ASSIGN(configured, configure_switches(topology, strategy, options));
  const ConfigurationsReport report = {topology, strategy, options, configured, reconfiguration_ps};
  print_text(invocation.out, line.json() ? to_json(report) + "\n" : text_of(report));
  return ExitCode::kDone;
}

}  // namespace

Command fred_compile_command() {
  return {"fred compile", "configures the switches of a network for the phases of a training",
          "  pleach fred compile --topology fred:D --strategy dp=5,tp=2,pp=2,outputs=multicast\n"
          "  pleach fred compile --topology cluster.toml --strategy dp=3,tp=2 --on-conflict fail\n",
          run};
}

}  // namespace pleach
