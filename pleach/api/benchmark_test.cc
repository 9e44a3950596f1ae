#include "pleach/api/benchmark.h"

#include <gtest/gtest.h>

#include <thread>

#include "pleach/api/job_book.h"
#include "pleach/api/schedule_source.h"
#include "pleach/base/index.h"
#include "pleach/collective/placement.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

TEST(ParseSizes, ReadsRangesAndLists) {
  const struct {
    const char* text;
    std::vector<int64_t> sizes;
  } cases[] = {
      {"4096", {4096}},
      {"1KiB:4KiB", {1024, 2048, 4096}},
      {"1KiB:100KiB:4", {1024, 4096, 16384, 65536}},
      {"1KB,2MiB", {1000, 2097152}},
      {"1:2,8", {1, 2, 8}},
  };
  for (const auto& example : cases) {
    const auto sizes = parse_sizes(example.text);
    ASSERT_TRUE(sizes.has_value()) << example.text << ": " << sizes.error().message;
    EXPECT_EQ(*sizes, example.sizes) << example.text;
  }
}

TEST(ParseSizes, RefusesWhatMakesNoSense) {
  for (const char* text : {"", "0", "12Q", "-4", "4:1", "1:8:1", "1:8:0", "1:2:3:4", "1:", ",",
                           "1:9223372036854775807:", "99999999999999999999"}) {
    const auto sizes = parse_sizes(text);
    ASSERT_FALSE(sizes.has_value()) << text;
    EXPECT_EQ(sizes.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_EQ(sizes.error().message.find('\n'), std::string::npos) << text;
  }
  EXPECT_TRUE(parse_sizes("1:4TiB").has_value());
  std::string many = "1";
  for (int i = 0; i < 1000; ++i) {
    many += ",1";
  }
  EXPECT_FALSE(parse_sizes(many).has_value());
}

// Runs a benchmark on threads; returns rank 0's report.
Result<BenchmarkReport> run_on_threads(const char* algorithm, CollectiveKind collective,
                                       int32_t rank_count, const BenchmarkOptions& options) {
  const auto store = make_local_store();
  std::vector<Result<BenchmarkReport>> reports(at(rank_count),
                                               Error{ErrorCode::kIo, "did not run"});
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      BenchmarkJob job;
      job.rank = Rank{rank};
      job.rank_count = rank_count;
      job.store = store;
      job.transport = "inproc";
      job.plan = [&](const TransportChoice&) -> Result<Book> {
        if (std::string(algorithm) == kAutoAlgorithm) {
          return obtain_book({.transport = "inproc"}, rank_count);
        }
        const std::string spec = "fully_connected:" + std::to_string(rank_count);
        PLEACH_ASSIGN(topology, parse_topology(spec));
        PLEACH_ASSIGN(schedule, obtain_schedule(topology, algorithm, {.collective = collective}));
        return book_of(std::move(schedule));
      };
      reports[at(rank)] = run_benchmark(job, options);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& report : reports) {
    if (!report) {
      return report.error();
    }
  }
  return reports.front();
}

TEST(RunBenchmark, ChecksEveryCollectiveInAndOutOfPlace) {
  BenchmarkOptions options;
  options.sizes_bytes = {4, 100, 4096};
  options.iterations = 2;
  options.type = ElementType::kInt32;
  for (const CollectiveKind collective : kAllCollectives) {
    SCOPED_TRACE(to_text(collective));
    const auto report = run_on_threads("direct", collective, 3, options);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    ASSERT_EQ(report->rows.size(), 3U);
    EXPECT_EQ(report->wrong_count(), 0);
    EXPECT_EQ(report->ranks.size(), 3U);
    const bool parts = has_parts(collective);
    EXPECT_EQ(report->rows[1].size_bytes, parts ? 96 : 100);
    EXPECT_EQ(report->rows[1].element_count, parts ? 8 : 25);
    for (const BenchmarkRow& row : report->rows) {
      ASSERT_TRUE(row.out_of_place && row.in_place);
      EXPECT_EQ(row.out_of_place->wrong_count, 0);
      EXPECT_GT(row.in_place->time_s, 0);
    }
  }
}

// One algorithm for small buffers, another for large ones; several operations in flight.
TEST(RunBenchmark, MeasuresWhatTheBookSays) {
  BenchmarkOptions options;
  options.sizes_bytes = {100, 1 << 20};
  options.iterations = 7;
  for (const int32_t in_flight : {1, 3, 9}) {
    options.in_flight = in_flight;
    const auto report = run_on_threads("auto", CollectiveKind::kAllReduce, 4, options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->algorithm, kSeveralAlgorithms);
    EXPECT_EQ(report->transport, "inproc");
    EXPECT_EQ(report->wrong_count(), 0);
    ASSERT_EQ(report->rows.size(), 2U);
    EXPECT_NE(report->rows[0].algorithm, report->rows[1].algorithm);
  }
  EXPECT_EQ(benchmark_memory_bytes(options), 9 * 2 * (1 << 20));
}

TEST(RunBenchmark, ChecksEveryTypeAndReduction) {
  BenchmarkOptions options;
  options.sizes_bytes = {8, 4096};
  options.iterations = 1;
  options.warmup_iterations = 0;
  for (const ElementType type : kAllElementTypes) {
    for (const ReduceOp op : kAllReduceOps) {
      SCOPED_TRACE(std::string(to_text(type)) + " " + std::string(to_text(op)));
      options.type = type;
      options.op = op;
      const auto report = run_on_threads("ring", CollectiveKind::kAllReduce, 3, options);
      ASSERT_EQ(report.has_value(), check_reduction(type, op).has_value());
      if (report) {
        EXPECT_EQ(report->wrong_count(), 0);
        continue;
      }
      EXPECT_NE(report.error().message.find(check_reduction(type, op).error().message),
                std::string::npos)
          << report.error().message;
    }
  }
}

// In every floating type, where a rank ends with a part of the result, with all of it, or with
// none.
TEST(RunBenchmark, ChecksAverages) {
  BenchmarkOptions options;
  options.sizes_bytes = {8, 120, 4096};
  options.iterations = 2;
  options.op = ReduceOp::kAverage;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64,
                                 ElementType::kFloat16, ElementType::kBFloat16}) {
    options.type = type;
    for (const CollectiveKind collective : kAllCollectives) {
      SCOPED_TRACE(std::string(to_text(collective)) + " " + std::string(to_text(type)));
      const auto report = run_on_threads("direct", collective, 3, options);
      ASSERT_TRUE(report) << report.error().message;
      EXPECT_EQ(report->wrong_count(), 0);
      EXPECT_EQ(report->rows.size(), 3U);
    }
  }
}

TEST(RunBenchmark, FailsOnAllRanksWhenRankZeroCannotPlan) {
  BenchmarkOptions options;
  options.sizes_bytes = {4};
  const auto report = run_on_threads("nothing", CollectiveKind::kAllReduce, 3, options);
  ASSERT_FALSE(report.has_value());
  EXPECT_NE(report.error().message.find("unknown algorithm 'nothing'"), std::string::npos);
}

}  // namespace
}  // namespace pleach
