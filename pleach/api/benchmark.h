// Benchmark: times a schedule on real ranks and checks every result, as nccl-tests does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/rendezvous/store.h"

namespace pleach {

// "1KiB:256MiB:4" (from, to, factor), "1KiB,1MB" or "64MiB" → sizes [bytes], each > 0.
// Errors: kInvalidArgument: those of parse_value_range (FACTOR is whole), more than 1,000 sizes.
Result<std::vector<int64_t>> parse_sizes(std::string_view text);

struct BenchmarkOptions {
  std::vector<int64_t> sizes_bytes;  // whole buffers; rounded down to what the collective can cut
  int32_t iterations = 20;
  int32_t warmup_iterations = 1;
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int32_t segment_count = 1;
  bool check = true;
  bool out_of_place = true;
  bool in_place = true;
  uint64_t seed = 1;  // of the inputs
};

struct Measurement {
  double time_s = 0;  // of one iteration, averaged over iterations and ranks
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
  std::optional<int64_t> wrong_count;  // elements, over all ranks; empty: not checked
};

struct BenchmarkRow {
  int64_t size_bytes = 0;     // whole buffer of one rank
  int64_t element_count = 0;  // as nccl-tests counts: of one rank's part where buffers differ
  std::optional<Measurement> out_of_place;
  std::optional<Measurement> in_place;
};

struct RankInformation {
  int32_t rank = 0;
  int64_t process = 0;
  std::string host;
};

// What rank 0 knows when the benchmark is over.
struct BenchmarkReport {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  Rank root = {0};
  std::string algorithm;
  std::string transport;
  int32_t rank_count = 0;
  std::string start_time;  // local, "2026-01-31 12:00:00"
  std::string end_time;
  std::vector<RankInformation> ranks;
  std::vector<BenchmarkRow> rows;

  int64_t wrong_count() const;
  double average_busbw_bytes_per_s() const;
};

struct BenchmarkJob {
  Rank rank;
  int32_t rank_count = 1;
  std::shared_ptr<Store> store;
  std::string name = "world";  // distinct jobs over one store differ in it
  std::string transport = "tcp";
  Duration deadline = std::chrono::seconds(30);
  int32_t landing_places = 4;
  // Rank 0's schedule; the other ranks receive it.
  std::function<Result<Schedule>()> plan;
  // Called on rank 0 before the first row and after each, with what is known so far.
  std::function<void(const BenchmarkReport&)> started;
  std::function<void(const BenchmarkReport&)> measured;
};

// One rank's part: connects, agrees on the schedule, measures every size, leaves in order.
// Collective. The first error of any rank ends it on all, naming the rank.
//   returns  the report on rank 0; elsewhere its rows are this rank's own
Result<BenchmarkReport> run_benchmark(const BenchmarkJob& job, const BenchmarkOptions& options);

// Bytes that one rank allocates for the largest size.
int64_t benchmark_memory_bytes(const BenchmarkOptions& options);

}  // namespace pleach
