// What a benchmark on real ranks has measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"

namespace pleach {

struct BenchmarkOptions {
  std::vector<int64_t> sizes_bytes;  // whole buffers; rounded down to what the collective can cut
  int32_t iterations = 20;
  int32_t warmup_iterations = 1;
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::optional<ElementType> wire = {};  // what travels; none: the type
  int32_t in_flight = 1;  // started before the first is waited for, with buffers of their own
  bool check = true;
  bool peer_memory = false;  // buffers that peers may read: allocate_peer_memory()
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
  int64_t size_bytes = 0;      // whole buffer of one rank
  int64_t element_count = 0;   // as nccl-tests counts: of one rank's part where buffers differ
  std::string algorithm = {};  // with its options
  int32_t segment_count = 1;
  std::optional<Measurement> out_of_place = {};
  std::optional<Measurement> in_place = {};
};

struct RankInformation {
  int32_t rank = 0;
  int64_t process = 0;
  std::string host;
};

// The algorithm of a report whose rows may have several.
inline constexpr const char* kSeveralAlgorithms = "auto";

// What rank 0 knows when the benchmark is over.
struct BenchmarkReport {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  Rank root = {0};
  std::string algorithm;  // or kSeveralAlgorithms
  std::string transport;
  BenchmarkOptions options;
  int32_t rank_count = 0;
  std::string start_time;  // local, "2026-01-31 12:00:00"
  std::string end_time;
  std::vector<RankInformation> ranks;
  std::vector<BenchmarkRow> rows;

  int64_t wrong_count() const;
  double average_busbw_bytes_per_s() const;
};

// One line: the JSON object of docs/cli.md, "run".
std::string to_json(const BenchmarkReport& report);

}  // namespace pleach
