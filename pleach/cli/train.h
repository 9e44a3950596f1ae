// pleach train, its parts: what the command line asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pleach/cli/common.h"

namespace pleach {

void declare_train(CommandLine& line);

// A workload, and how it is trained.
struct WorkloadSettings {
  Workload workload;
  Strategy strategy;
  std::vector<std::string> policies;
  bool settled = false;
  std::vector<double> slowness;  // by rank; empty: 1
  int64_t capacity_bytes = 0;    // of the accelerator; 0: unknown
};

// What --bandwidths asks for, apart from the training.
struct SweepSettings {
  std::vector<LinkId> links;
  std::vector<int64_t> bandwidths_bytes_per_s;
  double efficiency = 1;
  int64_t target_ps = 0;
};

// The command line, understood. There is either a workload or a trace.
struct TrainSettings {
  std::optional<WorkloadSettings> workload;
  std::optional<Trace> trace;
  std::optional<Topology> topology;  // empty: two numbers, or measured
  NetworkChoice network;             // without its topology and what was measured
  int32_t rank_count = 0;
  IterationOptions iteration;
  std::optional<Calibration> calibration;
  std::optional<MeasuredCosts> measured;
  std::optional<SweepSettings> sweep;
};

// Whether the costs that it asks for are those of a topology, and it gives none.
bool lacks_topology(const CommandLine& line);
// Errors: those of every option, with its name before them.
Result<TrainSettings> understand_train(const CommandLine& line);

}  // namespace pleach
