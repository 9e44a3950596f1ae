#include "pleach/api/calibration.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/policy/alpha_beta.h"

namespace pleach {
namespace {

std::string row(int64_t size, double time_us, const char* name = "all_reduce_perf") {
  return fmt::format(R"({{"size":{},"out_of_place":{{"time":{}}},"experiment_name":"{}"}})", size,
                     time_us, name);
}

std::string file_of(const std::vector<std::string>& rows, int ranks = 8) {
  const std::vector<std::string> devices(at(ranks), "{}");
  return fmt::format(R"({{"config":{{"devices":[{}]}},"results":[{}]}})", join(devices, ","),
                     join(rows, ","));
}

Result<Calibration> calibrate(const std::string& content) {
  const std::string path =
      (std::filesystem::temp_directory_path() /
       fmt::format("calibration_{}.json",
                   testing::UnitTest::GetInstance()->current_test_info()->name()))
          .string();
  EXPECT_TRUE(write_file(path, content));
  auto result = read_calibration(path);
  std::filesystem::remove(path);
  return result;
}

TEST(Calibration, FindsTheNumbersThatMadeTheRows) {
  for (const auto& [name, kind] : {std::pair{"all_reduce_perf", CollectiveKind::kAllReduce},
                                   {"all_gather_perf", CollectiveKind::kAllGather}}) {
    const AlphaBeta costs(8, 15'000'000, 1.18e9);
    std::vector<std::string> rows;
    for (int64_t size = 1024; size <= 1 << 28; size *= 4) {
      rows.push_back(row(size, static_cast<double>(costs.time_ps(kind, size)) * 1e-6, name));
    }
    const auto fit = calibrate(file_of(rows));
    ASSERT_TRUE(fit) << fit.error().message;
    EXPECT_EQ(fit->collective, kind);
    EXPECT_EQ(fit->rank_count, 8);
    EXPECT_NEAR(static_cast<double>(fit->alpha_ps), 15'000'000, 1'000);
    EXPECT_NEAR(fit->bandwidth_bytes_per_s, 1.18e9, 1e5);
    EXPECT_LT(fit->worst_error, 1e-3);
  }
}

TEST(Calibration, RefusesWhatItCannotFit) {
  const struct {
    std::string content;
    std::string message;
  } cases[] = {
      {"{\n\"results\": nonsense}", "no JSON: parse error at line 2, column 13"},
      {"[]", "no results"},
      {R"({"results":[]})", "no results"},
      {R"({"results":[{}]})", ".json:1:1: config.devices"},
      {"{\"results\":[{}], \"config\":\n{\"devices\":[0]}}", ".json:2:12: config.devices"},
      {file_of({row(1024, 10)}), "two sizes"},
      {file_of({row(1024, 10), row(1024, 10)}), "two sizes"},
      {file_of({row(1024, 10), "\n" + row(2048, -1)}), ".json:2:37: results[1]: 2048 bytes in -1"},
      {file_of({row(1024, 10), "\n" + row(-2048, 1)}), ".json:2:9: results[1]: -2048 bytes"},
      {file_of({row(1024, 10), "\n\t{}"}), ".json:2:2: results[1] has no whole size"},
      {file_of({row(1024, 10), "\n\n{\"size\":1,\"in_place\": {}}"}),
       ".json:3:23: results[1] has no time"},
      {file_of({"\n" + row(1024, 10, "sendrecv_perf"), row(2048, 20)}),
       ".json:2:59: results[0].experiment_name is \"sendrecv_perf\""},
      {file_of({row(1024, 10), row(1 << 20, 0.001)}), "no longer"},
  };
  for (const auto& one : cases) {
    const auto fit = calibrate(one.content);
    ASSERT_FALSE(fit) << one.content;
    EXPECT_NE(fit.error().message.find(one.message), std::string::npos) << fit.error().message;
    EXPECT_EQ(fit.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace pleach
