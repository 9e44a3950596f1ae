// What several subcommands share: the options that name a topology, a collective and a schedule.
#pragma once

#include <chrono>
#include <string>

#include "pleach/api/pleach.h"
#include "pleach/cli/command_line.h"

namespace pleach {

// --topology, --collective, --algorithm, --group, --root.
struct ScheduleOptions {
  std::string topology;
  std::string algorithm;
  std::string collective = "all_reduce";
  std::string group;
  std::string root = "0";

  void declare_collective(CommandLine& line);
  // What to obtain: `file` when it is given (whatever it ends in), else --algorithm.
  std::string source(const std::string& file) const;
  // Errors: a value out of range; --group or --root where they have no meaning.
  Result<ScheduleRequest> request(const Topology& on, const CommandLine& line,
                                  const std::string& source) const;
};

// "32 GB/s out of 4 links": the bound and what proves it.
std::string describe_bound(double algbw_bytes_per_s, bool exact, const std::string& witness);

// "torus:4x4" or a file, with the option's name before an error.
Result<Topology> topology_option(const std::string& spec);

class Stopwatch {
 public:
  double elapsed_s() const {
    return std::chrono::duration<double>(SteadyClock().now() - start_).count();
  }

 private:
  TimePoint start_ = SteadyClock().now();
};

}  // namespace pleach
