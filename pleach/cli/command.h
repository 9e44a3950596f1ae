// Command: one subcommand of `pleach`, and what it runs with.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"

namespace pleach {

// What the process returns. Nothing else in the library knows these numbers.
enum class ExitCode : uint8_t { kDone = 0, kFailed = 1, kUsage = 2, kIncorrect = 3 };

struct Invocation {
  std::string program;                 // argv[0]
  std::vector<std::string> arguments;  // those after the subcommand's name
  std::FILE* out = nullptr;
  std::FILE* error = nullptr;
};

struct Command {
  std::string name;
  std::string summary;
  std::string examples;  // lines for --help: "pleach ...", each with what it teaches
  // Errors become one line on `error` and exit code 1.
  Result<ExitCode> (*run)(const Command& command, const Invocation& invocation);
};

// In the order that `pleach --help` shows.
Registry<Command> commands();

// Dispatches on the first argument after the program's name; prints one line per error.
ExitCode run_command_line(std::span<const std::string> arguments, std::FILE* out, std::FILE* error);

}  // namespace pleach
