// pleach doctor: what this machine can run, and why not.
#include <fmt/core.h>

#include "pleach/cli/common.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

Result<ExitCode> run_doctor(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  const MachineReport report = inspect_machine();
  if (line.json()) {
    print_text(invocation.out, to_json(report) + "\n");
    return ExitCode::kDone;
  }
  Table table({{"", Table::Align::kLeft}, {"", Table::Align::kLeft}, {"", Table::Align::kLeft}});
  table.add({"cores", "", std::to_string(report.core_count)});
  table.add({"memory", "",
             fmt::format("{}, {} available", format_size(report.memory_bytes),
                         format_size(report.available_bytes))});
  for (const MachineCheck& check : report.checks) {
    table.add({check.name, check.available ? "yes" : "no", check.detail});
  }
  print_text(invocation.out, table.text());
  return ExitCode::kDone;
}

}  // namespace

extern const Command kDoctorCommand = {
    "doctor", "shows what this machine can run, and why not",
    "  pleach doctor          cores, memory, transports, starters\n"
    "  pleach doctor --json   for scripts\n",
    run_doctor};

}  // namespace pleach
