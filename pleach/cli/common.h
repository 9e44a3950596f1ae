// What several subcommands share: options that name a topology, a collective and a schedule, and
// tables in files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pleach/api/library.h"
#include "pleach/base/files.h"
#include "pleach/cli/command_line.h"

namespace pleach {

// --topology, which must be given.
void declare_topology(CommandLine& line);
// --collective, --group, --root.
void declare_collective(CommandLine& line);
// FILE or --algorithm (none given: `otherwise`), and the above.
void declare_schedule(CommandLine& line, const std::string& otherwise = "");

// Whether FILE and --algorithm are neither or both given: says so.
std::optional<ExitCode> check_schedule(const CommandLine& line);
// What to obtain: FILE when it is given (whatever it ends in), else --algorithm.
std::string schedule_source(const CommandLine& line);
// The same of a command that takes several: --algorithm ring,multitree,step_rule=published.
Result<std::vector<std::string>> schedule_sources(const CommandLine& line);
// Refuses --root of a collective that has none.
Status check_root(const CommandLine& line, CollectiveKind collective);
// What of `source` the options of declare_collective ask for.
// Errors: a value out of range; --group or --root where they have no meaning.
Result<ScheduleRequest> schedule_request(const CommandLine& line, const Topology& on,
                                         const std::string& source);

// --strategy, of so many ranks, placed where it says so, on the topology if there is one. Its
// messages name the strategy, as the option does.
Result<Strategy> strategy_option(const CommandLine& line, int32_t rank_count,
                                 const Topology* topology);

// --segments: a number; none: auto.
Result<std::optional<int32_t>> segments_option(const CommandLine& line);
// --seed.
Result<uint64_t> seed_option(const CommandLine& line);
// --memory of a switch's configurations, at most a tebibyte.
Result<int64_t> configuration_memory(const CommandLine& line);

// ".json or .pleach".
std::string schedule_extensions();

// "32 GB/s out of 4 links": the bound and what proves it.
std::string describe_bound(double algbw_bytes_per_s, bool exact, const std::string& witness);

// Adds files, name and content, of the folder that --csv names, which it makes.
Status add_csv(const CommandLine& line,
               const std::vector<std::pair<std::string, std::string>>& files, FileSet& set);
// The same, written.
Status write_csv(const CommandLine& line,
                 const std::vector<std::pair<std::string, std::string>>& files);

// A book, as a table or as JSON.
void print_book(const CommandLine& line, const Invocation& invocation, const Book& book);

class Stopwatch {
 public:
  double elapsed_s() const {
    return std::chrono::duration<double>(SteadyClock().now() - start_).count();
  }

 private:
  TimePoint start_ = SteadyClock().now();
};

}  // namespace pleach
