// pleach launch: ranks of any program, on this machine.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "pleach/base/units.h"
#include "pleach/cli/common.h"
#include "pleach/cli/print.h"

namespace pleach {
namespace {

// Ranks that hear of a failure have so long to say so, and to leave.
constexpr Duration kPatience = std::chrono::seconds(1);

// What the first failure was; nothing where all went well.
std::string text_of(const RanksEnd& end) {
  if (end.code == 0) {
    return "";
  }
  return end.signal == 0 ? fmt::format("rank {} ended with exit code {}", end.rank.value, end.code)
                         : fmt::format("rank {} was ended by signal {} ({})", end.rank.value,
                                       end.signal, strsignal(end.signal));
}

Result<ExitCode> run_launch(const Command& command, const Invocation& invocation) {
  const auto& words = invocation.arguments;
  const auto end_of_options = std::ranges::find(words, "--");
  Invocation own = invocation;
  own.arguments.assign(words.begin(), end_of_options);
  CommandLine line(command, own);
  line.required_option("-n,--ranks", "processes to start");
  line.option("--grace", "what remains has so long to end after SIGTERM, before it is killed",
              "5s");
  line.flag("--label", "each line that a rank prints begins with its number");
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  StartOptions options;
  PLEACH_SET(options.rank_count, line.count("--ranks", 1, 4096));
  PLEACH_ASSIGN(grace_ps, line.value("--grace", parse_time_ps));
  options.deadline = kPatience + std::chrono::nanoseconds(grace_ps / 1000);
  options.patience = kPatience;
  if (end_of_options == words.end() || end_of_options + 1 == words.end()) {
    return line.refuse("give the program to run after --");
  }
  options.arguments.assign(end_of_options + 1, words.end());
  std::FILE* const out = line.json() ? invocation.error : invocation.out;
  bool is_lost = false;  // something that a rank printed
  if (line.given("--label") || line.json()) {
    options.on_line = [&, has_label = line.given("--label")](Rank rank, bool is_error,
                                                             std::string_view text) {
      std::FILE* const to = is_error ? invocation.error : out;
      print_raw(to, fmt::format("{}{}\n", has_label ? fmt::format("{}: ", rank.value) : "", text));
      const bool is_written = std::fflush(to) == 0 || errno == EPIPE;  // read as much as wanted
      is_lost = is_lost || (!is_written && to == invocation.out);
    };
  }
  std::fflush(invocation.out);
  PLEACH_ASSIGN(end, start_ranks(options));
  if (line.json()) {
    print_text(invocation.out, fmt::format(R"({{"rank_count":{},"code":{},"rank":{},"signal":{}}})"
                                           "\n",
                                           options.rank_count, end.code,
                                           end.code == 0 ? "null" : std::to_string(end.rank.value),
                                           end.signal == 0 ? "null" : std::to_string(end.signal)));
  }
  if (end.code != 0) {
    print_error(invocation.error, "pleach launch", text_of(end));
  } else if (is_lost) {
    return Error{ErrorCode::kIo, "cannot write to the standard output"};
  }
  return static_cast<ExitCode>(end.code);
}

}  // namespace

extern const Command kLaunchCommand = {
    "launch", "starts ranks of any program on this machine",
    "  pleach launch -n 4 -- ./train --epochs 3\n"
    "  pleach launch -n 4 --label -- pleach run --algorithm ring --sizes 1MiB\n"
    "Ranks find PLEACH_RANK, PLEACH_RANK_COUNT and PLEACH_STORE in their environment. A second "
    "after\n"
    "one has failed, the others are sent SIGTERM. The exit code is that of the first failure; 128 "
    "and\n"
    "the number of the signal where one ended it.\n",
    run_launch};

}  // namespace pleach
