#include "pleach/api/compare.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pleach/api/schedule_source.h"
#include "pleach/collective/formats.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// Borrows the topology.
ComparisonRequest request_of(const Topology& topology, const std::vector<std::string>& sources) {
  ComparisonRequest request;
  for (const std::string& source : sources) {
    request.cases.push_back({&topology, topology.name(), source, {}});
  }
  request.models = {"flow", "analytic"};
  request.sizes_bytes = {1000, 1 << 20};
  return request;
}

TEST(Compare, HasTheTimesOfTheSameSchedulesAlone) {
  const Topology topology = parse_topology("mesh:2x3").value();
  for (const bool choose_segments : {false, true}) {
    ComparisonRequest request = request_of(topology, {"ring", "multitree", "direct"});
    request.how.choose_segments = choose_segments;
    const auto comparison = compare(request);
    ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
    ASSERT_EQ(comparison->rows.size(), 3U * 2 * 2);
    for (const ComparisonRow& row : comparison->rows) {
      TimingRequest how = request.how;
      how.model = row.model;
      how.size_bytes = row.size_bytes;
      const auto schedule = obtain_schedule(topology, row.algorithm);
      ASSERT_TRUE(schedule.has_value());
      const Timing alone = time_schedule(topology, *schedule, how).value();
      EXPECT_EQ(row.time_ps, alone.time_ps);
      EXPECT_EQ(row.segment_count, alone.segment_count);
      EXPECT_LE(row.algbw_bytes_per_s, row.bound_algbw_bytes_per_s);
    }
  }
}

TEST(Compare, MarksAllThatTakeTheLeastTime) {
  const Topology topology = parse_topology("ring:6").value();
  const auto comparison =
      compare(request_of(topology, {"ring", "ring,form=explicit", "multitree"}));
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  for (const char* const model : {"flow", "analytic"}) {
    for (const int64_t size_bytes : {1000, 1 << 20}) {
      std::vector<ComparisonRow> rows;
      std::ranges::copy_if(comparison->rows, std::back_inserter(rows), [&](const auto& row) {
        return row.model == model && row.size_bytes == size_bytes;
      });
      ASSERT_EQ(rows.size(), 3U);
      const int64_t least_ps = std::ranges::min(rows, {}, &ComparisonRow::time_ps).time_ps;
      for (const ComparisonRow& row : rows) {
        EXPECT_EQ(row.is_best, row.time_ps == least_ps) << row.algorithm;
      }
    }
  }
}

TEST(Compare, SaysWhyAnAlgorithmDoesNotFit) {
  const Topology topology = parse_topology("ring:6").value();
  ComparisonRequest request = request_of(topology, {"ring_2d", "bruck", "ring"});
  const auto comparison = compare(request);
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  ASSERT_EQ(comparison->refusals.size(), 2U);
  EXPECT_EQ(comparison->refusals[1].why, "bruck: it does no all_reduce");
  EXPECT_EQ(comparison->rows.size(), 4U);

  request.cases.pop_back();
  EXPECT_FALSE(compare(request).has_value());  // nothing is left
}

TEST(Compare, RefusesWhatItDoesNotKnowAndWhatIsThereTwice) {
  const Topology topology = parse_topology("ring:6").value();
  const auto message = [](const ComparisonRequest& request) {
    const auto comparison = compare(request);
    return comparison.has_value() ? "" : comparison.error().message;
  };
  EXPECT_NE(message(request_of(topology, {"ring", "rnig"})).find("did you mean"),
            std::string::npos);
  EXPECT_NE(message(request_of(topology, {"ring", "ring,x=1"})).find("unknown option"),
            std::string::npos);
  EXPECT_NE(message(request_of(topology, {"ring", "ring"})).find("asked for twice"),
            std::string::npos);
  ComparisonRequest request = request_of(topology, {"ring"});
  request.sizes_bytes = {1, 2, 1};
  EXPECT_NE(message(request).find("a size of 1 bytes is asked for twice"), std::string::npos);
}

// Files of another collective, or of other ranks, and a size that no time is enough for: each is a
// refusal, and the others have their rows.
TEST(Compare, ComparesNoDifferentWork) {
  const Topology topology = parse_topology("ring:4,bandwidth=1B/s").value();
  const std::string folder = testing::TempDir();
  const auto file_of = [&](const std::string& name, const ScheduleRequest& request) {
    std::string path = folder + name + ".json";
    EXPECT_TRUE(write_schedule(**obtain_schedule(topology, "ring", request), path));
    return path;
  };
  const std::string gather = file_of("compare_gather", {.collective = CollectiveKind::kAllGather});
  const std::string pair = file_of("compare_pair", {.participants = {{0}, {2}}});
  ComparisonRequest request = request_of(topology, {"ring", gather, pair, "direct"});
  request.models = {"flow"};
  request.sizes_bytes = {int64_t{1} << 40, 1024};
  const auto comparison = compare(request);
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  EXPECT_EQ(comparison->collective, "all_reduce");
  ASSERT_EQ(comparison->rows.size(), 2U);
  for (const ComparisonRow& row : comparison->rows) {
    EXPECT_EQ(row.size_bytes, 1024);
    EXPECT_EQ(row.rank_count, 4);
  }
  ASSERT_EQ(comparison->refusals.size(), 4U);  // two sizes, two files
  EXPECT_NE(comparison->refusals[0].why.find("ring: 1 TiB by flow: "), std::string::npos);
  EXPECT_NE(comparison->refusals[1].why.find("all_gather"), std::string::npos);
  EXPECT_NE(comparison->refusals[2].why.find("other ranks"), std::string::npos);
}

TEST(Compare, RoundsExchangesToWholeBlocks) {
  const Topology topology = parse_topology("ring:6").value();
  ComparisonRequest request = request_of(topology, {"direct"});
  request.cases.front().request.collective = CollectiveKind::kAllToAll;
  const auto comparison = compare(request);
  ASSERT_TRUE(comparison.has_value()) << comparison.error().message;
  EXPECT_EQ(comparison->rows.front().size_bytes, 996);
}

}  // namespace
}  // namespace pleach
