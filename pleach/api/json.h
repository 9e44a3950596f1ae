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
#include "pleach/training/training.h"

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

struct TrainingReport {
  std::string workload;
  std::string topology;  // empty: two numbers
  std::string strategy;
  std::string algorithm;
  std::string costs;
  int32_t rank_count = 0;
  int64_t memory_bytes =
      0;  // of parameters, gradients and optimizer state, on one rank; 0: unknown
  std::vector<TrainingRow> rows;
  bool with_buckets = false;
};
// speedup: the first row's iteration time over the row's.
std::string to_json(const TrainingReport& report, double wall_s);

struct SweepReport {
  int64_t bandwidth_bytes_per_s = 0;
  TrainingReport report;
};
// `needed_bytes_per_s`, by policy, is empty without a target (0 ps); 0 there: null.
std::string to_json(std::span<const SweepReport> points, int64_t target_ps,
                    std::span<const std::string> policies,
                    std::span<const int64_t> needed_bytes_per_s, double wall_s);

// nccl-tests' result file, version 3. `arguments` is the command line; the environment stays out.
//   source  nccl-tests 2.19, src/util.cu: jsonOutputInit and what follows it
std::string nccl_tests_json(const BenchmarkReport& report, const BenchmarkOptions& options,
                            std::span<const std::string> arguments);

}  // namespace pleach
