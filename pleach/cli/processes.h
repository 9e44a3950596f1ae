// Ranks as processes of this machine.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/cli/command.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/launch/launch.h"

namespace pleach {

struct RanksHere {
  int32_t rank_count = 1;
  int32_t host_count = 1;  // that they take themselves to be on
  Duration deadline;       // for the others to end, once one has failed
};
// Starts this command line again, once per rank, and waits for all; says who was ended by a signal.
Result<ExitCode> start_again(const Invocation& invocation, const std::string& command,
                             const RanksHere& ranks);

// Whether a starter has made as many ranks as --ranks says; 0: it says nothing.
Status check_rank_count(int32_t rank_count, const LaunchEnvironment& launch);
// "rank 1: MESSAGE", as one line.
void print_rank_error(const Invocation& invocation, Rank rank, const Error& error);
// A line, of rank 0, where others may take part in the job.
void warn_of_strangers(const Invocation& invocation, const LaunchEnvironment& launch);

}  // namespace pleach
