// pleach fred route: whether flows go through a switch at once, and how.
#include <fmt/core.h>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

std::string cells_text(const FredRouting& result) {
  Table table({{"  cell", Table::Align::kLeft},
               {"stage", Table::Align::kRight},
               {"mode", Table::Align::kLeft}});
  for (std::size_t index = 0; index < result.modes.size(); ++index) {
    const FredCell& cell = result.fred->cells()[index];
    const std::string mode = mode_text(cell.kind, result.modes[index]);
    if (mode != "idle") {
      table.add(
          {"  " + result.fred->name_of(cell), std::to_string(result.fred->stage_of(cell)), mode});
    }
  }
  return table.text();
}

std::string text_of(const FredRouting& result) {
  const FredSwitch& fred = *result.fred;
  Facts facts;
  const auto counted = [](int64_t count, const char* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  facts.add("switch",
            fmt::format("{}: {} in {}", fred.size().text(), counted(fred.count().cells, "cell"),
                        counted(fred.size().stages(), "stage")));
  add_dead(facts, fred);
  facts.add("flows", std::to_string(result.flows.size()));
  facts.add("routed", routed_text(result));
  facts.add("steps", std::to_string(result.routing.steps));
  const bool has_cells = result.routing.routed && !result.flows.empty();
  return facts.text() + (has_cells ? "\n" + cells_text(result) : "");
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_fred(line);
  line.list_option("--flows", "INPUTS->OUTPUTS; ...: \"0,2->0,2; 1->3\"; none: an idle switch");
  declare_search(line);
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(size, fred_size(line));
  PLEACH_ASSIGN(options, route_options(line));
  PLEACH_ASSIGN(flows, line.value("--flows", [&size](const std::string& text) {
    return parse_flows(text, size.ports);
  }));
  PLEACH_ASSIGN(fred, FredSwitch::create(size));
  const FredRouting result = routed(fred, std::move(flows), options);
  print_text(invocation.out, line.json() ? to_json(result) + "\n" : text_of(result));
  return ExitCode::kDone;
}

}  // namespace

Command fred_route_command() {
  return {"fred route", "routes flows through one switch, or names those that are in the way",
          "  pleach fred route --ports 8 --middle 2 --flows \"0,2->0,2; 1->3\" --json\n"
          "  pleach fred route --ports 6 --middle 2 --flows \"0,2->0,2; 1,4->1,4; 3,5->3,5\"\n"
          "  pleach fred route --ports 8 --without-subnetwork 1 --flows \"0-3->0-3; 4->5\"\n",
          run};
}

}  // namespace pleach
