#include "pleach/cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>

#include "pleach/base/text.h"
#include "pleach/cli/print.h"

namespace pleach {

struct CommandLine::Library {
  explicit Library(const std::string& summary) : app(summary) {}

  // The library writes what it parses into the text.
  CLI::Option* add(const std::string& names, const std::string& help,
                   const std::string& otherwise = "") {
    auto text = std::make_unique<std::string>(otherwise);
    CLI::Option* option = app.add_option(names, *text, help);
    texts.emplace(option, std::move(text));
    return option;
  }

  CLI::App app;
  std::map<const CLI::Option*, std::unique_ptr<std::string>> texts;
  std::set<const CLI::Option*> lists;  // whose value may be empty
};

CommandLine::CommandLine(const Command& command, const Invocation& invocation)
    : invocation_(invocation),
      command_name_("pleach " + command.name),
      library_(std::make_unique<Library>(command.summary)) {
  CLI::App& app = library_->app;
  app.name(command_name_);
  app.allow_extras();
  app.set_help_flag("-h,--help", "show this help");
  app.get_formatter()->column_width(32);
  app.get_formatter()->label("REQUIRED", "(required)");
  app.get_formatter()->label("TEXT", "");
  if (!command.examples.empty()) {
    app.footer("Examples:\n" + command.examples);
  }
}

CommandLine::~CommandLine() = default;

void CommandLine::required_argument(const std::string& name, const std::string& help) {
  library_->add(name, help)->required();
}

void CommandLine::optional_argument(const std::string& name, const std::string& help) {
  library_->add(name, help);
}

void CommandLine::option(const std::string& names, const std::string& help,
                         const std::string& otherwise) {
  const std::string shown =
      otherwise.empty() ? help : fmt::format("{} (default {})", help, otherwise);
  library_->add(names, shown, otherwise);
}

void CommandLine::required_option(const std::string& names, const std::string& help) {
  library_->add(names, help)->required();
}

void CommandLine::repeated_option(const std::string& names, const std::string& help) {
  library_->add(names, help)->required()->take_all();
}

void CommandLine::list_option(const std::string& names, const std::string& help) {
  library_->lists.insert(library_->add(names, help));
}

void CommandLine::flag(const std::string& name, const std::string& help) {
  library_->app.add_flag(name, help);
}

namespace {

// What is wrong with a word that no option or argument took.
std::string unexpected(const CLI::App& app, const std::string& word) {
  if (!word.starts_with("-")) {
    return fmt::format("unexpected argument {}", pleach::quoted(word));
  }
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      known.push_back("--" + name);
    }
  }
  return unknown_name("option", word.substr(0, word.find('=')), known).message;
}

// What is wrong with an option that was given an empty value, as an unset variable gives.
std::string without_value(const CLI::App& app, const std::set<const CLI::Option*>& lists) {
  for (const CLI::Option* option : app.get_options()) {
    const auto& values = option->results();
    if (option->get_expected_max() > 0 && !lists.contains(option) &&
        std::find(values.begin(), values.end(), "") != values.end()) {
      return option->get_name() + " needs one value";
    }
  }
  return "";
}

}  // namespace

std::optional<ExitCode> CommandLine::parse() {
  CLI::App& app = library_->app;
  std::string message;
  try {
    std::vector<std::string> reversed(invocation_.arguments.rbegin(), invocation_.arguments.rend());
    app.parse(reversed);
    message = app.remaining_size() > 0 ? unexpected(app, app.remaining().front())
                                       : without_value(app, library_->lists);
  } catch (const CLI::CallForHelp&) {
    print_text(invocation_.out, app.help());
    return ExitCode::kDone;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();
    message = text.substr(0, text.find(':')) + " needs one value";
  } catch (const CLI::ParseError& error) {
    // A missing argument is often the consequence of a word that was not understood: say that.
    const std::vector<std::string> rest = app.remaining();
    message = rest.empty() ? error.what() : unexpected(app, rest.front());
  }
  if (message.empty()) {
    return std::nullopt;
  }
  return refuse(fmt::format("{} (see {} --help)", message, command_name_));
}

bool CommandLine::given(const std::string& name) const {
  return library_->app.get_option(name)->count() > 0;
}

const std::string& CommandLine::text(const std::string& name) const {
  return *library_->texts.at(library_->app.get_option(name));
}

std::vector<std::string> CommandLine::texts(const std::string& name) const {
  return library_->app.get_option(name)->results();
}

ExitCode CommandLine::refuse(const std::string& why) const {
  print_error(invocation_.error, command_name_, why);
  return ExitCode::kUsage;
}

Result<bool> parse_switch(const std::string& text) {
  if (text == "on" || text == "1" || text == "true" || text == "yes") {
    return true;
  }
  if (text == "off" || text == "0" || text == "false" || text == "no") {
    return false;
  }
  return invalid(fmt::format("{} is neither on (1, true, yes) nor off", pleach::quoted(text)));
}

}  // namespace pleach
