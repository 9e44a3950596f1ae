// pleach run, its parts: what the command line asks for, and what all ranks take from it.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/cli/common.h"

namespace pleach {

void declare_run(CommandLine& line);

// The command line, understood. Equal on all ranks.
struct RunSettings {
  BenchmarkOptions benchmark;
  int32_t rank_count = 0;  // 0: as many as were started
  const TransportKind* transport = nullptr;
  Duration deadline = std::chrono::seconds(30);
  int32_t landing_places = 4;
};
Result<RunSettings> understand_run(const CommandLine& line);

// The schedule for `rank_count` ranks. Errors: kInvalidArgument when the topology has another
// number of ranks, and those of obtain_schedule.
Result<std::shared_ptr<const Schedule>> schedule_for(const CommandLine& line, int32_t rank_count);

}  // namespace pleach
