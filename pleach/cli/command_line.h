// CommandLine: the options of one subcommand. The only door to the command line library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/text.h"
#include "pleach/cli/command.h"

namespace pleach {

// `result`, its error prefixed by the option that the value came from: "--size: ...".
template <typename T>
Result<T> from_option(const std::string& option, Result<T> result) {
  if (!result) {
    return prefixed(option, result.error());
  }
  return result;
}

// Declares options, parses an invocation, and then has a text for each: units and ranges are parsed
// where the value is asked for, so that their errors read the same everywhere. After parse() a name
// is one of those that the option was declared with: "--size", "FILE".
class CommandLine {
 public:
  CommandLine(const Command& command, const Invocation& invocation);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void required_argument(const std::string& name, const std::string& help);
  void optional_argument(const std::string& name, const std::string& help);
  // `names` as "-s,--size". --help shows a default that is not empty.
  void option(const std::string& names, const std::string& help, const std::string& otherwise = "");
  void required_option(const std::string& names, const std::string& help);
  // One that may be given again for one more value, and must be given once.
  void repeated_option(const std::string& names, const std::string& help);
  // One whose value may be empty, as a list of nothing is.
  void list_option(const std::string& names, const std::string& help);
  void flag(const std::string& name, const std::string& help);
  // --json, which every subcommand has.
  void json_flag() { flag("--json", "print one JSON object"); }

  // An exit code when nothing is left to do: help was asked for, or the line is malformed (one line
  // on the error stream that names the word and the nearest known option).
  std::optional<ExitCode> parse();

  // Whether the option, argument or flag was on the command line.
  bool given(const std::string& name) const;
  bool json() const { return given("--json"); }
  // What was given, or the default.
  const std::string& text(const std::string& name) const;
  // All that was given to an option that may be repeated, in this order.
  std::vector<std::string> texts(const std::string& name) const;
  // What was given, or the default, parsed by `read`. Errors: its own, after the name.
  template <typename Read>
  auto value(const std::string& name, Read read) const {
    return from_option(name, read(text(name)));
  }
  // The same, as a whole number in [least, most].
  Result<int32_t> count(const std::string& name, int32_t least, int32_t most) const {
    return parse_count(text(name), name, least, most);
  }

  // Prints what is wrong with the line as a whole, on the error stream.
  ExitCode refuse(const std::string& why) const;

 private:
  struct Library;
  const Invocation& invocation_;
  std::string command_name_;
  std::unique_ptr<Library> library_;
};

// "on"/"off", "1"/"0", "true"/"false", "yes"/"no".
Result<bool> parse_switch(const std::string& text);

}  // namespace pleach
