// The dispatch.
#include <fmt/core.h>

#include "pleach/base/version.h"
#include "pleach/cli/command.h"
#include "pleach/cli/print.h"

namespace pleach {

namespace {

void print_help(std::FILE* out) {
  print_text(out,
             "Plans, proves, simulates and runs the collectives of distributed training.\n"
             "Usage: pleach COMMAND [options]\n\nCommands:\n");
  for (const Command* command : commands()) {
    print_text(out, fmt::format("  {:<12} {}\n", command->name, command->summary));
  }
  print_text(out,
             "\nEvery command takes --help (with examples) and --json (one object on stdout);\n"
             "pleach --version says which one this is.\n"
             "Exit codes: 0 done, 1 bad input or failed run, 2 usage, 3 verification failed.\n"
             "\nA first look:\n"
             "  pleach topology torus:4x4\n"
             "  pleach simulate --topology torus:4x4 --algorithm multitree --size 64MiB\n"
             "  pleach run --ranks 4 --sizes 1KiB:1MiB:4\n");
}

}  // namespace

ExitCode run_command_line(std::span<const std::string> arguments, std::FILE* out,
                          std::FILE* error) {
  if (arguments.size() < 2) {
    print_help(error);
    return ExitCode::kUsage;
  }
  const std::string& name = arguments[1];
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(out);
    return ExitCode::kDone;
  }
  if (name == "--version") {
    print_text(out, fmt::format("pleach {}\n", version()));
    return ExitCode::kDone;
  }
  const auto command = commands().find(name);
  if (!command) {
    print_error(error, "pleach", command.error().message + " (see pleach --help)");
    return ExitCode::kUsage;
  }
  Invocation invocation = {arguments[0], {arguments.begin() + 2, arguments.end()}, out, error};
  const Result<ExitCode> result = (*command)->run(**command, invocation);
  if (!result) {
    print_error(error, "pleach " + name, result.error().message);
    return ExitCode::kFailed;
  }
  return *result;
}

}  // namespace pleach
