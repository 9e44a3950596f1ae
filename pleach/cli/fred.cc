// pleach fred: the actions there are, and what they share.
#include "pleach/cli/fred.h"

#include <fmt/core.h>

#include <array>

#include "pleach/base/text.h"
#include "pleach/cli/print.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {
namespace {

std::array<Command, 5> actions() {
  return {fred_route_command(), fred_show_command(), fred_flows_command(), fred_study_command(),
          fred_compile_command()};
}

void print_help(const Command& command, std::FILE* out) {
  std::string text = fmt::format("{}\nUsage: pleach {} ACTION [options]\n\nActions:\n",
                                 command.summary, command.name);
  for (const Command& action : actions()) {
    text +=
        fmt::format("  {:<12} {}\n", action.name.substr(command.name.size() + 1), action.summary);
  }
  print_text(out, text + "\nEvery action takes --help and --json.\nExamples:\n" + command.examples);
}

Result<ExitCode> run_fred(const Command& command, const Invocation& invocation) {
  const std::string name = invocation.arguments.empty() ? "" : invocation.arguments.front();
  if (name == "--help" || name == "-h") {
    print_help(command, invocation.out);
    return ExitCode::kDone;
  }
  std::vector<std::string> known;
  for (const Command& action : actions()) {
    known.push_back(action.name.substr(command.name.size() + 1));
    if (known.back() != name) {
      continue;
    }
    const Invocation own = {invocation.program,
                            {invocation.arguments.begin() + 1, invocation.arguments.end()},
                            invocation.out,
                            invocation.error};
    Result<ExitCode> result = action.run(action, own);
    if (!result) {
      print_error(invocation.error, "pleach " + action.name, result.error().message);
      return ExitCode::kFailed;
    }
    return result;
  }
  const std::string why = name.empty() ? "ACTION is required: " + alternatives(known)
                                       : unknown_name("action", name, known).message;
  print_error(invocation.error, "pleach " + command.name,
              fmt::format("{} (see pleach {} --help)", why, command.name));
  return ExitCode::kUsage;
}

}  // namespace

void declare_fred(CommandLine& line) {
  line.required_option("-p,--ports", "of the switch, in and out, 2 or more");
  line.option("-m,--middle", "subnetworks in the middle of each level, 2 or more", "3");
  declare_dead(line);
}

void declare_dead(CommandLine& line) {
  line.option("--without-cell", "cells that are dead, as `pleach fred show` names them: R3+2.0/D1");
  line.option("--without-subnetwork", "subnetworks that are dead, with all in them: 1+2.0");
}

Result<FredFaults> dead_parts(const CommandLine& line, const FredSize& size) {
  PLEACH_ASSIGN(dead, line.value("--without-cell", [&](const std::string& text) {
    return parse_faults(size, text, "");
  }));
  PLEACH_ASSIGN(inside, line.value("--without-subnetwork", [&](const std::string& text) {
    return parse_faults(size, "", text);
  }));
  dead.subnetworks = std::move(inside.subnetworks);
  return std::move(dead);
}

Result<FredSize> fred_size(const CommandLine& line) {
  FredSize size;
  PLEACH_SET(size.ports, line.count("--ports", 2, INT32_MAX));
  PLEACH_SET(size.middle, line.count("--middle", 2, INT32_MAX));
  const auto count = count_cells(size);
  if (!count) {
    return count.error();
  }
  PLEACH_SET(size.dead, dead_parts(line, size));
  return size;
}

void add_dead(Facts& facts, const FredSwitch& fred) {
  if (fred.size().dead.empty()) {
    return;
  }
  const FredCount dead = fred.dead_count();
  facts.add("dead", fmt::format("{}: {} of {} cells, {} of {} multiplexers",
                                faults_text(fred.size(), fred.size().dead), dead.cells,
                                fred.count().cells, dead.multiplexers, fred.count().multiplexers));
}

void declare_search(CommandLine& line) {
  line.option("--budget", "choices that the exact search may try",
              std::to_string(RouteOptions().budget));
  line.option("--search", "full; first: the first colouring of each level alone", "full");
}

Result<RouteOptions> route_options(const CommandLine& line) {
  RouteOptions options;
  PLEACH_SET(options.budget, parse_integer(line.text("--budget"), "--budget", 0, INT64_MAX / 1024));
  const std::string& search = line.text("--search");
  if (search != "full" && search != "first") {
    const std::array<std::string, 2> known = {"full", "first"};
    return prefixed("--search", unknown_name("search", search, known));
  }
  options.goes_back = search == "full";
  return options;
}

FredRouting routed(const FredSwitch& fred, std::vector<PortFlow> flows,
                   const RouteOptions& options) {
  FredRouting result = {&fred, std::move(flows)};
  result.routing = route_flows(fred.size(), result.flows, options);
  if (result.routing.routed) {
    result.modes = configure(fred, result.flows, result.routing.choices);
    const Status status = check_configuration(fred, result.flows, result.modes);
    PLEACH_CHECK(status.has_value(), "a routing does what its flows ask");
  }
  for (const FlowConflict& conflict : result.routing.conflicts) {
    std::vector<PortFlow> own;
    for (const int32_t flow : conflict.flows) {
      own.push_back(result.flows[static_cast<std::size_t>(flow)]);
    }
    result.in_the_way.push_back(faults_in_the_way(fred.size(), own, options));
  }
  return result;
}

std::string routed_text(const FredRouting& result) {
  const FlowRouting& routing = result.routing;
  if (routing.routed) {
    return "yes";
  }
  if (!routing.proved) {
    return "not found; whether there is a way is open";
  }
  const FlowConflict& conflict = routing.conflicts.front();
  std::vector<std::string> words;
  for (const int32_t flow : conflict.flows) {
    words.push_back(std::to_string(flow));
  }
  const std::string dead = faults_text(result.fred->size(), result.in_the_way.front());
  if (words.size() == 1) {
    return fmt::format("no: flow {} ({}) has no way at level {} past {}, dead", words.front(),
                       flow_text(result.flows[static_cast<std::size_t>(conflict.flows.front())]),
                       conflict.level, dead);
  }
  return fmt::format("no: flows {} are in each other's way at level {}{}{}", join(words, ", "),
                     conflict.level, dead.empty() ? "" : fmt::format(" where {} is dead", dead),
                     conflict.is_least ? "; none of them can be left out" : "");
}

extern const Command kFredCommand = {
    "fred", "looks into a switch that reduces and distributes while it routes",
    "  pleach fred route --ports 6 --middle 2 --flows \"0,2->0,2; 1,4->1,4; 3,5->3,5\"\n"
    "  pleach fred show --ports 8 --middle 2 --flows \"0-3->0-3\" -o switch.svg\n"
    "  pleach fred flows --pattern reduce_scatter --of 0,2,5\n"
    "  pleach fred study --placements --ports 20\n"
    "  pleach fred compile --topology fred:D --strategy dp=5,tp=2,pp=2\n",
    run_fred};

}  // namespace pleach
