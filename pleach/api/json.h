// Results as JSON: what `--json` prints, and nccl-tests' result file. One object each, one line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "pleach/api/benchmark.h"
#include "pleach/api/inspect.h"
#include "pleach/api/machine.h"
#include "pleach/api/timing.h"
#include "pleach/collective/verify.h"

namespace pleach {

// Keys as docs/cli.md has them. `wall_s`: how long the command itself took.
std::string to_json(const TopologySummary& summary);
std::string to_json(const ScheduleSummary& summary, double wall_s);
// contention_free is null where no topology was looked at.
std::string to_json(const Verification& verification, bool on_topology, double wall_s);
std::string to_json(const ScheduleSummary& schedule, const TimingRequest& request,
                    const Timing& timing, double wall_s);
std::string to_json(const BenchmarkReport& report);
std::string to_json(std::span<const RegistryListing> listings);
std::string to_json(const MachineReport& report);

// nccl-tests' result file, version 3. `arguments` is the command line; the environment stays out.
//   source  nccl-tests 2.19, src/util.cu: jsonOutputInit and what follows it
std::string nccl_tests_json(const BenchmarkReport& report, const BenchmarkOptions& options,
                            std::span<const std::string> arguments);

}  // namespace pleach
