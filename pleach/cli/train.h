// pleach train: its options, and what they mean.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pleach/cli/common.h"

namespace pleach {

struct TrainOptions {
  std::string workload;
  std::string topology;
  std::string ranks;
  std::string strategy;
  std::string policy = "wfbp,ddp,dear,work_conserving";
  std::string algorithm = "ring";
  std::string exchange_algorithm = "direct";
  std::string model = "flow";
  std::string segments = "1";
  std::string costs = "curves";
  std::string alpha;
  std::string overhead;
  std::string bandwidth;
  std::string calibration;
  std::string measured_link;
  std::string accelerator = "a100";
  std::string batch = "0";
  std::string compute;
  std::string groups;
  std::string slow;
  std::string jitter = "0";
  std::string iterations = "60";
  std::string seed = "0";
  std::string bandwidths;
  std::string links = "all";
  std::string target;
  std::string csv;
  std::string export_chakra;
  bool explain = false;
  bool json = false;

  void declare(CommandLine& line);
};

// What --bandwidths asks for, apart from the training.
struct SweepSettings {
  std::vector<LinkId> links;
  std::vector<int64_t> bandwidths_bytes_per_s;
  double efficiency = 1;
  int64_t target_ps = 0;
};

// A run, understood.
struct TrainPlan {
  std::optional<Workload> workload;  // empty: a trace
  std::optional<Trace> trace;
  std::optional<Topology> topology;  // empty: two numbers
  int32_t rank_count = 0;
  Strategy strategy;
  std::vector<std::string> policies;
  NetworkChoice network;  // without its topology
  std::vector<double> slowness;
  IterationOptions iteration;
  std::optional<Calibration> calibration;
  std::optional<SweepSettings> sweep;
};

// Errors: those of every option, with its name before them.
Result<TrainPlan> understand(const TrainOptions& options, const CommandLine& line);

// "dear,bucket=25MiB,ddp" → "dear,bucket=25MiB" and "ddp": a word with = belongs to the policy
// before it. Errors: kInvalidArgument: an empty name, or an option before any policy.
Result<std::vector<std::string>> split_policies(const std::string& text);

}  // namespace pleach
