// Benchmark: times schedules on real ranks and checks every result, as nccl-tests does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/planning/book.h"
#include "pleach/report/benchmark.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/transport_choice.h"

namespace pleach {

// "1KiB:256MiB:4" (from, to, factor), "1KiB,1MB" or "64MiB" → sizes [bytes], each > 0.
// Errors: kInvalidArgument: those of parse_value_range (FACTOR is whole), more than 1,000 sizes.
Result<std::vector<int64_t>> parse_sizes(std::string_view text);

struct BenchmarkJob {
  Rank rank;
  int32_t rank_count = 1;
  std::shared_ptr<Store> store;
  std::string name = "world";  // distinct jobs over one store differ in it
  std::string transport = kAutoTransport;
  Duration deadline = std::chrono::seconds(30);
  int32_t landing_places = 4;
  // Rank 0's book, of one collective, for ranks that use the transport; the others receive it.
  std::function<Result<Book>(const TransportChoice& choice)> plan;
  std::optional<Rank> root = {};  // none: the one of the book's first schedule
  // Called on rank 0 before the first row and after each, with what is known so far; they return
  // whether to go on. If not, all ranks end well, with the rows that there are.
  std::function<bool(const BenchmarkReport&)> started;
  std::function<bool(const BenchmarkReport&)> measured;
};

// One rank's part: connects, agrees on the book, measures every size, leaves in order.
// Collective. The first error of any rank ends it on all, naming the rank.
//   returns  the report on rank 0; elsewhere its rows are this rank's own
Result<BenchmarkReport> run_benchmark(const BenchmarkJob& job, const BenchmarkOptions& options);

// Bytes that one rank allocates for the largest size.
int64_t benchmark_memory_bytes(const BenchmarkOptions& options);

}  // namespace pleach
