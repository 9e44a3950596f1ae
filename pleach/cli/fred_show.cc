// pleach fred show: what a switch is made of, and the way of each flow.
#include <fmt/core.h>

#include <map>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/cli/common.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/fabric/control_unit.h"

namespace pleach {
namespace {

// One line per stage: how many cells of which kind, in how many subnetworks.
std::string stages_text(const FredSwitch& fred) {
  using enum Table::Align;
  Table table({{"  stage", kRight},
               {"level", kRight},
               {"subnetworks", kRight},
               {"ports each", kRight},
               {"cells", kLeft}});
  const int32_t stages = fred.size().stages();
  std::vector<std::map<CellKind, int64_t>> counts(at(stages));
  for (const FredCell& cell : fred.cells()) {
    ++counts[at(fred.stage_of(cell))][cell.kind];
  }
  for (int32_t stage = 0; stage < stages; ++stage) {
    const int32_t level = std::min(stage, stages - 1 - stage);
    std::vector<std::string> words;
    for (const auto& [kind, count] : counts[at(stage)]) {
      words.push_back(fmt::format("{} {}", count, to_text(kind)));
    }
    table.add({std::to_string(stage), std::to_string(level),
               std::to_string(fred.size().subnetworks(level)),
               std::to_string(fred.size().ports_of(level)), join(words, ", ")});
  }
  return table.text();
}

std::string ways_text(const FredRouting& result) {
  Table table({{"  flow", Table::Align::kRight},
               {"ports", Table::Align::kLeft},
               {"way", Table::Align::kLeft}});
  const auto ways = ways_of(*result.fred, result.flows, result.modes);
  for (std::size_t flow = 0; flow < ways.size(); ++flow) {
    std::vector<std::string> names;
    for (const int32_t cell : ways[flow]) {
      names.push_back(result.fred->name_of(result.fred->cells()[at(cell)]));
    }
    table.add({std::to_string(flow), flow_text(result.flows[flow]), join(names, " ")});
  }
  return table.text();
}

std::string text_of(const FredSwitch& fred, const FredMemory& memory, const FredRouting* routing) {
  Facts facts;
  facts.add("switch", fred.size().text());
  facts.add("cells",
            fmt::format("{}, and {} multiplexers", fred.count().cells, fred.count().multiplexers));
  add_dead(facts, fred);
  facts.add("stages", std::to_string(fred.size().stages()));
  facts.add("wires", std::to_string(fred.wire_count()));
  facts.add("configuration",
            fmt::format("{} bits at 3 a cell ({} phases in {} bytes); {} that tell all modes apart "
                        "({} phases)",
                        memory.published_bits, memory.published_phases(), memory.bytes,
                        memory.exact_bits, memory.exact_phases()));
  if (routing != nullptr) {
    facts.add("routed", routed_text(*routing));
  }
  std::string text = facts.text() + "\n" + stages_text(fred);
  if (routing != nullptr && routing->routing.routed && !routing->flows.empty()) {
    text += "\n" + ways_text(*routing);
  }
  return text;
}

Status draw(const CommandLine& line, const FredSwitch& fred, const FredRouting* routing) {
  const std::string& path = line.text("--output");
  const bool is_dot = path.ends_with(".dot");
  if (!is_dot && !path.ends_with(".svg")) {
    return invalid("--output",
                   fmt::format("{} ends neither in .svg nor in .dot", pleach::quoted(path)));
  }
  PLEACH_ASSIGN(picture, is_dot ? fred_dot(fred, routing) : fred_svg(fred, routing));
  return write_file(path, picture);
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare_fred(line);
  line.list_option("--flows", "also the way of each: \"0,2->0,2; 1->3\"");
  declare_search(line);
  line.option("--memory", "of configurations", std::to_string(kConfigurationMemoryBytes));
  line.option("-o,--output", "draws it: FILE.svg, or FILE.dot for Graphviz");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(size, fred_size(line));
  PLEACH_ASSIGN(options, route_options(line));
  PLEACH_ASSIGN(memory_bytes, configuration_memory(line));
  PLEACH_ASSIGN(flows, line.value("--flows", [&size](const std::string& text) {
    return parse_flows(text, size.ports);
  }));
  PLEACH_ASSIGN(fred, FredSwitch::create(size));
  FredRouting result;
  if (line.given("--flows")) {
    result = routed(fred, std::move(flows), options);
  }
  const FredRouting* routing = line.given("--flows") ? &result : nullptr;
  if (line.given("--output")) {
    PLEACH_TRY(draw(line, fred, routing));
  }
  const FredMemory memory = memory_of(size, memory_bytes);
  print_text(invocation.out,
             line.json() ? to_json(fred, memory, routing) + "\n" : text_of(fred, memory, routing));
  return ExitCode::kDone;
}

}  // namespace

Command fred_show_command() {
  return {"fred show", "shows and draws the cells and wires of one switch, and the way of flows",
          "  pleach fred show --ports 12\n"
          "  pleach fred show --ports 8 --middle 2 --flows \"0,2->0,2; 1->3\" -o switch.svg\n"
          "  pleach fred show --ports 8 --without-cell R0+2/D1 -o switch.svg\n",
          run};
}

}  // namespace pleach
