// pleach fred flows: a pattern of communication as flows through one switch.

#include "pleach/base/ranges.h"
#include "pleach/base/text.h"
#include "pleach/cli/fred.h"
#include "pleach/cli/print.h"
#include "pleach/fabric/flow_patterns.h"

namespace pleach {
namespace {

constexpr int32_t kLastPort = 999'999;

Result<std::vector<int32_t>> parse_ports(const std::string& text) {
  if (trim(text).empty()) {
    return std::vector<int32_t>();
  }
  return parse_ranges(text, "port", kLastPort);
}

Result<ExitCode> run(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.required_option("--pattern", join(flow_pattern_names(), ", "));
  line.required_option("--of", "ports that take part, in order: 0,2,5");
  line.option("--to", "ports of the outputs, where they are others");
  line.flag("--without-own", "leave out what a port would only send to itself");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(pattern, line.value("--pattern", [](const std::string& text) {
    return parse_flow_pattern(text);
  }));
  PatternPorts ports;
  PLEACH_SET(ports.inputs, line.value("--of", parse_ports));
  PLEACH_SET(ports.outputs, line.value("--to", parse_ports));
  ports.without_own = line.given("--without-own");
  PLEACH_ASSIGN(phases, pattern_phases(pattern, ports));
  if (line.json()) {
    print_text(invocation.out, flows_json(line.text("--pattern"), phases) + "\n");
    return ExitCode::kDone;
  }
  for (const std::vector<PortFlow>& flows : phases) {
    print_text(invocation.out, flows_text(flows) + "\n");
  }
  return ExitCode::kDone;
}

}  // namespace

Command fred_flows_command() {
  return {"fred flows", "writes a pattern of communication as flows, a line per serial phase",
          "  pleach fred flows --pattern reduce_scatter --of 0,2,5\n"
          "  pleach fred flows --pattern multicast --of 0 --to 4-7 --json\n",
          run};
}

}  // namespace pleach
