// CommandLine: the options of one subcommand. The only door to the command line library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/cli/command.h"

namespace pleach {

// Declares options, then parses an invocation into the variables they were declared with, which
// must outlive it. Values arrive as text: units and ranges are the command's to parse, so that
// their errors read the same everywhere.
class CommandLine {
 public:
  CommandLine(const Command& command, const Invocation& invocation);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void required_argument(const std::string& name, std::string& value, const std::string& help);
  void optional_argument(const std::string& name, std::string& value, const std::string& help);
  // `names` as "-s,--size"; `value` holds the default, which --help shows when it is not empty.
  void option(const std::string& names, std::string& value, const std::string& help);
  void required_option(const std::string& names, std::string& value, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);

  // An exit code when nothing is left to do: help was asked for, or the line is malformed (one line
  // on the error stream that names the word and the nearest known option).
  std::optional<ExitCode> parse();
  // Whether the option was on the command line.
  bool given(const std::string& name) const;

 private:
  struct Library;
  const Invocation& invocation_;
  std::string command_name_;
  std::unique_ptr<Library> library_;
};

// `result`, its error prefixed by the option that the value came from: "--size: ...".
template <typename T>
Result<T> from_option(const std::string& option, Result<T> result) {
  if (!result) {
    return Error{result.error().code, option + ": " + result.error().message};
  }
  return result;
}

// "on"/"off", "1"/"0", "true"/"false", "yes"/"no".
Result<bool> parse_switch(const std::string& text);

}  // namespace pleach
