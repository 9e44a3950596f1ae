#include "pleach/cli/processes.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "pleach/cli/print.h"

namespace pleach {

Result<ExitCode> start_again(const Invocation& invocation, const std::string& command,
                             const RanksHere& ranks) {
  std::array<char, 4096> path = {};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  StartOptions options;
  options.rank_count = ranks.rank_count;
  options.host_count = ranks.host_count;
  // The others hear of a failure at once: little time is enough to say so and leave.
  options.deadline = std::min<Duration>(ranks.deadline, std::chrono::seconds(5));
  options.arguments = {length > 0 ? path.data() : invocation.program, command};
  options.arguments.insert(options.arguments.end(), invocation.arguments.begin(),
                           invocation.arguments.end());
  std::fflush(invocation.out);
  options.failed = [&](const RanksEnd& first) {
    if (first.signal != 0) {
      print_error(invocation.error, "pleach " + command,
                  fmt::format("rank {} was ended by signal {} ({})", first.rank.value, first.signal,
                              strsignal(first.signal)));
      std::fflush(invocation.error);
    }
  };
  PLEACH_ASSIGN(end, start_ranks(options));
  return end.code == 0 ? ExitCode::kDone : ExitCode::kFailed;
}

Status check_rank_count(int32_t rank_count, const LaunchEnvironment& launch) {
  return rank_count == 0 || rank_count == launch.rank_count
             ? ok()
             : invalid(fmt::format("--ranks is {}, but {} started {}", rank_count, launch.starter,
                                   launch.rank_count));
}

void print_rank_error(const Invocation& invocation, Rank rank, const Error& error) {
  const std::string line = said_by(rank, error.message);
  const std::size_t colon = line.find(": ");
  print_error(invocation.error, line.substr(0, colon), line.substr(colon + 2));
}

void warn_of_strangers(const Invocation& invocation, const LaunchEnvironment& launch) {
  if (launch.rank.value == 0 && launch.is_open_to_strangers()) {
    print_error(invocation.error, "rank 0",
                fmt::format("whoever reaches {} may take part in this job: it has no secret "
                            "(PLEACH_SECRET)",
                            launch.store_host));
  }
}

}  // namespace pleach
