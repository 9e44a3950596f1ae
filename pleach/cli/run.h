// pleach run, its parts: what the command line asks for, and the two ways to have ranks.
#pragma once

#include <string>

#include "pleach/cli/common.h"

namespace pleach {

// The command line of `pleach run`, as text.
struct RunOptions {
  ScheduleOptions schedule;
  std::string file;
  std::string ranks;
  std::string transport = "tcp";
  std::string sizes;
  std::string least = "32MiB";
  std::string most = "32MiB";
  std::string factor = "2";
  std::string iterations = "20";
  std::string warmup = "1";
  std::string type = "float32";
  std::string op = "sum";
  std::string segments = "1";
  std::string landing_places = "4";
  std::string deadline = "30s";
  std::string in_place = "both";
  std::string check = "1";
  std::string seed = "1";
  std::string output_file;
  bool json = false;

  void declare(CommandLine& line);
};

// The same, understood. Equal on all ranks.
struct RunPlan {
  BenchmarkOptions benchmark;
  std::string topology;
  std::string algorithm;
  int32_t rank_count = 0;  // 0: as many as were started
  const TransportKind* transport = nullptr;
  Duration deadline = std::chrono::seconds(30);
  int32_t landing_places = 4;
  std::string output_file;
  bool json = false;
};
Result<RunPlan> understand(const RunOptions& options);

// The schedule for `rank_count` ranks. Errors: kInvalidArgument when the topology has another
// number of ranks, and those of obtain_schedule.
Result<Schedule> plan_schedule(const RunPlan& plan, const RunOptions& options,
                               const CommandLine& line, int32_t rank_count);

// `path`, or the first of path.0, path.1, ... that does not exist yet; created empty.
Result<std::string> reserve_output_file(const std::string& path);

}  // namespace pleach
