#include "pleach/report/nccl_tests.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "pleach/base/files.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

BenchmarkReport example_report() {
  BenchmarkReport report;
  report.algorithm = "ring";
  report.rank_count = 2;
  report.options.sizes_bytes = {1048576};
  report.ranks = {{0, 10, "host"}, {1, 11, "host"}};
  BenchmarkRow row;
  row.size_bytes = 1048576;
  row.element_count = 262144;
  row.out_of_place = Measurement{123.4e-6, 8.5e9, 8.5e9, 0};
  row.in_place = Measurement{12345.6e-6, 123.456e9, 1234.5e9, std::nullopt};
  report.rows = {row};
  return report;
}

TEST(NcclTests, RowsHaveItsColumns) {
  const BenchmarkReport report = example_report();
  EXPECT_EQ(nccl_tests_row(report, report.rows[0]),
            "     1048576        262144     float     sum      -1   123.40    8.50    8.50       0"
            "  12345.6  123.46  1234.5     N/A\n");
}

// A comment wherever another algorithm takes over, unless one does them all.
TEST(NcclTests, SayWhatRunsEachRow) {
  BenchmarkReport report = example_report();
  report.rows.front().algorithm = "tree";
  EXPECT_EQ(nccl_tests_choice(report), "");
  report.algorithm = kSeveralAlgorithms;
  EXPECT_EQ(nccl_tests_choice(report), "# algorithm tree segments 1\n");
  report.rows.push_back(report.rows.front());
  EXPECT_EQ(nccl_tests_choice(report), "");
  report.rows.back().segment_count = 4;
  EXPECT_EQ(nccl_tests_choice(report), "# algorithm tree segments 4\n");
  report.rows.back().algorithm = "ring";
  EXPECT_EQ(nccl_tests_choice(report), "# algorithm ring segments 4\n");
}

TEST(NcclTests, FooterCountsWrongElements) {
  BenchmarkReport report = example_report();
  EXPECT_NE(nccl_tests_footer(report).find("# Out of bounds values : 0 OK\n"), std::string::npos);
  EXPECT_NE(nccl_tests_footer(report).find("# Avg bus bandwidth    : 621.5 \n"), std::string::npos);
  report.rows[0].out_of_place->wrong_count = 7;
  EXPECT_NE(nccl_tests_footer(report).find("# Out of bounds values : 7 FAILED\n"),
            std::string::npos);
}

TEST(NcclTests, NamesItsTypesOpsAndRoots) {
  EXPECT_EQ(nccl_tests_type(ElementType::kFloat64), "double");
  EXPECT_EQ(nccl_tests_op(CollectiveKind::kReduce, ReduceOp::kProduct), "prod");
  EXPECT_EQ(nccl_tests_op(CollectiveKind::kAllGather, ReduceOp::kSum), "none");
  EXPECT_EQ(nccl_tests_root(CollectiveKind::kBroadcast, Rank{3}), "3");
  EXPECT_EQ(nccl_tests_program(CollectiveKind::kAllToAll), "alltoall_perf");
  EXPECT_EQ(nccl_tests_op(CollectiveKind::kGather, ReduceOp::kSum), "none");
  EXPECT_EQ(nccl_tests_root(CollectiveKind::kScatter, Rank{2}), "2");
  EXPECT_EQ(nccl_tests_program(CollectiveKind::kGather), "gather_perf");
}

TEST(NcclTests, ReadsWhatItWrites) {
  const BenchmarkReport report = example_report();
  const std::string path = testing::TempDir() + "nccl_tests_test.json";
  const std::vector<std::string> arguments = {"pleach", "run"};
  ASSERT_TRUE(write_file(path, nccl_tests_json(report, arguments)));
  const std::vector<CollectiveKind> wanted = {CollectiveKind::kAllGather,
                                              CollectiveKind::kAllReduce};
  const auto file = read_nccl_tests(path, wanted);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->collective, CollectiveKind::kAllReduce);
  EXPECT_EQ(file->rank_count, 2);
  ASSERT_EQ(file->rows.size(), 1U);
  EXPECT_EQ(file->rows[0].size_bytes, 1048576);
  EXPECT_NEAR(file->rows[0].time_s, 123.4e-6, 1e-12);  // out of place, where there is that
  const std::string message = read_nccl_tests(path, std::span(wanted).first(1)).error().message;
  EXPECT_TRUE(message.starts_with(path + ":1:")) << message;
  EXPECT_TRUE(
      message.ends_with(": results[0].experiment_name is \"all_reduce_perf\", not all_gather_perf"))
      << message;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace pleach
