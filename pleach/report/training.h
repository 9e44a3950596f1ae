// What each policy costs a training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/training/training.h"

namespace pleach {

struct TrainingReport {
  std::string workload;
  std::string topology;  // empty: two numbers
  std::string strategy;  // empty: a trace
  std::string algorithm;
  std::string costs;
  int32_t rank_count = 0;
  int64_t memory_bytes = 0;  // of parameters, gradients, optimizer state on one rank; 0: unknown
  std::vector<TrainingRow> rows;
  bool with_buckets = false;
};

// The first row's iteration time over the row's; none where the row takes no time.
std::optional<double> speedup(const TrainingRow& row, const TrainingRow& first);
// The row's iteration time over its bound; none where that is 0.
std::optional<double> over_bound(const TrainingRow& row);

// The worker that computes most.
const WorkerTimes& busiest_worker(const TrainingRow& row);

// One line: the JSON object of docs/cli.md, "train". `wall_s`: how long the command took.
std::string to_json(const TrainingReport& report, double wall_s);

// One line per row, and one per bucket of each row, after a line of titles. Times in picoseconds.
std::string rows_csv(std::span<const TrainingRow> rows);
std::string buckets_csv(std::span<const TrainingRow> rows);

}  // namespace pleach
