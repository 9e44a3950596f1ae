// What a file of measured costs says, and what is said of one that is none.
#include "pleach/training/measured_costs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/training/training.h"

namespace pleach {
namespace {

constexpr auto kReduce = CollectiveKind::kAllReduce;
constexpr auto kScatter = CollectiveKind::kReduceScatter;
constexpr int64_t kMs = 1'000'000'000;

std::string file_of(const std::string& points) {
  return R"({"format": "pleach-costs", "version": 1, "rank_count": 4, "points": [)" + points + "]}";
}

std::string point(const std::string& kind, int64_t size_bytes, double time_s) {
  return fmt::format(R"({{"collective": "{}", "size_bytes": {}, "time_s": {}}})", kind, size_bytes,
                     time_s);
}

TEST(MeasuredCosts, LinearBetweenSizesAndBeyond) {
  // 1 KiB 2 ms, 3 KiB 6 ms; then, in two near sizes, a time that noise has lowered.
  const auto costs = MeasuredCosts::from_points(4, {{kReduce, 3072, 6e-3},
                                                    {kReduce, 1024, 2e-3},
                                                    {kReduce, 3200, 5e-3},
                                                    {kScatter, 1000, 1e-3}});
  ASSERT_TRUE(costs) << costs.error().message;
  EXPECT_EQ(costs->rank_count(), 4);
  EXPECT_TRUE(costs->has(kReduce));
  EXPECT_FALSE(costs->has(CollectiveKind::kAllGather));
  const struct {
    CollectiveKind kind;
    int64_t size_bytes;
    int64_t time_ps;
  } cases[] = {
      {kReduce, 1, 2 * kMs},  // as the least
      {kReduce, 1024, 2 * kMs},
      {kReduce, 2048, 4 * kMs},
      {kReduce, 3072, 6 * kMs},
      {kReduce, 3200, 6 * kMs},  // no less than for fewer bytes
      // From (1024, 2 ms) to (3200, 6 ms): steeper than the last piece, which is flat.
      {kReduce, 6400, 6 * kMs + 4 * kMs * 3200 / 2176},
      {kReduce, 9600, 6 * kMs + 4 * kMs * 6400 / 2176},
      {kScatter, 500, kMs},
      {kScatter, 5000, 5 * kMs},  // one size: in proportion
  };
  for (const auto& one : cases) {
    EXPECT_NEAR(static_cast<double>(costs->time_ps(one.kind, one.size_bytes)),
                static_cast<double>(one.time_ps), 10)
        << one.size_bytes;
  }
  EXPECT_EQ(costs->breakpoints(kScatter).front(), 1000);
}

TEST(MeasuredCosts, TheSteeperLastPieceGoesOn) {
  const auto costs = MeasuredCosts::from_points(
      2, {{kReduce, 1000, 1e-3}, {kReduce, 2000, 1.1e-3}, {kReduce, 4000, 3.1e-3}});
  ASSERT_TRUE(costs);
  EXPECT_EQ(costs->time_ps(kReduce, 8000), 7'100'000'000);  // 1 ms per 1,000 bytes
}

TEST(MeasuredCosts, TheLargestNumbersStayInRange) {
  const auto costs = MeasuredCosts::from_points(
      2, {{kReduce, (int64_t{1} << 60) - 1, 0}, {kReduce, int64_t{1} << 60, 1e6}});
  ASSERT_TRUE(costs);
  EXPECT_LE(costs->time_ps(kReduce, INT64_MAX), kLongestPs);
}

TEST(MeasuredCosts, ReadsAFile) {
  const auto costs = MeasuredCosts::parse(
      file_of(point("all_reduce", 1024, 0.5) + ",\n" + point("broadcast", 8, 0)), "f");
  ASSERT_TRUE(costs) << costs.error().message;
  EXPECT_EQ(costs->rank_count(), 4);
  EXPECT_EQ(costs->time_ps(kReduce, 1024), 500 * kMs);
  EXPECT_EQ(costs->time_ps(CollectiveKind::kBroadcast, 1 << 20), 0);
}

TEST(MeasuredCosts, SaysWhatIsWrong) {
  const auto entry = [](const std::string& text) { return file_of("\n" + text); };
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {"[]", "f: is no file of costs: its format is not 'pleach-costs'"},
      {R"({"format": "pleach-workload"})",
       "f: is no file of costs: its format is not "
       "'pleach-costs'"},
      {R"({"format": "pleach-costs"})", "f:1:1: key 'version' is missing"},
      {R"({"format": "pleach-costs", "version": 1, "rank_count": 4, "points": [], "point": 1})",
       "f:1:1: unknown key 'point'; did you mean 'points'? known: format, version, rank_count, "
       "points"},
      {R"({"format": "pleach-costs", "version": 2, "rank_count": 4, "points": []})",
       "f:1:39: version: '2', and 1 is known"},
      {R"({"format": "pleach-costs", "version": 1, "rank_count": 0, "points": []})",
       "f:1:56: rank_count: '0' is no whole number from 1 to 1048576"},
      {R"({"format": "pleach-costs", "version": 1, "rank_count": 4, "points": {}})",
       "f:1:69: points: an object is no array"},
      {entry("3"), "f:2:1: points[0]: '3' is no object"},
      {entry(R"({"collective": "all_reduce", "size_bytes": 1})"),
       "f:2:1: points[0]: key 'time_s' is missing"},
      {entry(point("all_reduces", 1, 1)),
       "f:2:16: points[0].collective: unknown collective 'all_reduces'; did you mean 'all_reduce'? "
       "known: all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, gather, "
       "scatter"},
      {entry(R"({"collective": 7, "size_bytes": 1, "time_s": 1})"),
       "f:2:16: points[0].collective: '7' is no text"},
      {entry(point("all_reduce", 0, 1)),
       "f:2:44: points[0].size_bytes: '0' is no whole number from 1 to 1152921504606846976"},
      {entry(R"({"collective": "all_reduce", "size_bytes": 1.5, "time_s": 1})"),
       "f:2:44: points[0].size_bytes: '1.5' is no whole number from 1 to 1152921504606846976"},
      {entry(R"({"collective": "all_reduce", "size_bytes": 18446744073709551615, "time_s": 1})"),
       "f:2:44: points[0].size_bytes: '18446744073709551615' is no whole number from 1 to "
       "1152921504606846976"},
      {entry(point("all_reduce", 1, -1)),
       "f:2:57: points[0].time_s: '-1' is no time from 0 to 1000000 s"},
      {entry(point("all_reduce", 1, 2e6)),
       "f:2:57: points[0].time_s: '2000000' is no time from 0 to 1000000 s"},
      {entry(R"({"collective": "all_reduce", "size_bytes": 1, "time_s": "1"})"),
       "f:2:57: points[0].time_s: '\"1\"' is no time from 0 to 1000000 s"},
      {entry(""), "f: points: there are none"},
      {entry(point("all_reduce", 8, 1) + "," + point("all_reduce", 8, 2)),
       "f: points[1]: all_reduce of 8 bytes is there twice"},
  };
  for (const auto& one : cases) {
    const auto costs = MeasuredCosts::parse(one.text, "f");
    ASSERT_FALSE(costs) << one.message;
    EXPECT_EQ(costs.error().message, one.message);
    EXPECT_EQ(costs.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(MeasuredCosts::from_points(0, {{kReduce, 1, 1}}));
  EXPECT_FALSE(MeasuredCosts::from_points(2, {{kReduce, 0, 1}}));
  EXPECT_FALSE(MeasuredCosts::read("there/is/none.json"));
}

// Points that lie on the line of other costs are those costs: every policy trains alike under both.
TEST(MeasuredCosts, TrainsAsTheCostsThatItsPointsAreOf) {
  Workload workload;
  workload.model.name = "small";
  workload.batch = 1;
  MeasuredTimes times;
  times.batch = 1;
  for (int32_t index = 0; index < 8; ++index) {
    ModelLayer layer;
    layer.name = fmt::format("layer{}", index);
    layer.tensors = {{"weight", 100'000 + 40'000 * (index % 5)}};
    workload.model.layers.push_back(std::move(layer));
    times.layers.push_back({.forward_ps = kMs / 10, .backward_ps = kMs / 5});
  }
  workload.times = std::move(times);
  const AlphaBeta line(4, 20'000'000, 4e8);
  std::vector<MeasuredCosts::Point> points;
  for (const CollectiveKind kind : {kReduce, kScatter, CollectiveKind::kAllGather}) {
    for (const int64_t size_bytes : {int64_t{1024}, int64_t{1} << 20}) {
      points.push_back({kind, size_bytes,
                        static_cast<double>(line.time_ps(kind, size_bytes)) /
                            static_cast<double>(kPicosecondsPerSecond)});
    }
  }
  const auto costs = MeasuredCosts::from_points(4, points);
  ASSERT_TRUE(costs);
  const auto strategy = parse_strategy("dp=4", 4);
  ASSERT_TRUE(strategy);
  TrainingRequest request{
      .workload = workload,
      .strategy = *strategy,
      .network = {.source = CostSource::kMeasured, .measured = &*costs},
      .policies = {"sequential", "ddp,bucket=1MiB", "dear,bucket=1MiB", "work_conserving"}};
  const auto measured = train(request);
  request.network = {
      .source = CostSource::kAlphaBeta, .alpha_ps = 20'000'000, .bandwidth_bytes_per_s = 4e8};
  const auto computed = train(request);
  ASSERT_TRUE(measured && computed);
  for (std::size_t row = 0; row < computed->size(); ++row) {
    const auto expected = static_cast<double>((*computed)[row].run.iteration_ps);
    EXPECT_NEAR(static_cast<double>((*measured)[row].run.iteration_ps), expected, expected * 1e-3)
        << (*computed)[row].policy;
    EXPECT_GT((*measured)[row].exposed_ps, 0);
  }
}

// Files that others wrote: whatever is in one is read or refused in one line.
TEST(MeasuredCosts, RandomChangesAreReadOrRefusedInOneLine) {
  const std::string whole =
      file_of(point("all_reduce", 1024, 0.5) + "," + point("reduce_scatter", 4096, 0.25) + "," +
              point("all_gather", 1 << 20, 2e-4));
  const std::string letters = "{}[],:\"\\0123456789.eE-+ \n\tabcdefnulltrue_\xff";
  const uint64_t seed = 11;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Rng rng(seed);
  const auto below = [&](std::size_t count) {
    return static_cast<std::size_t>(rng.below(static_cast<int64_t>(count)));
  };
  int32_t read = 0;
  for (int32_t round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (std::size_t change = 0; change <= below(4) && !text.empty(); ++change) {
      const std::size_t place = below(text.size());
      switch (below(4)) {
        case 0:
          text[place] = letters[below(letters.size())];
          break;
        case 1:
          text.insert(place, 1, letters[below(letters.size())]);
          break;
        case 2:
          text.erase(place, 1 + below(8));
          break;
        default:
          text.resize(place);
      }
    }
    const auto costs = MeasuredCosts::parse(text, "f");
    if (costs) {
      ++read;
      for (const CollectiveKind kind : kAllCollectives) {
        if (costs->has(kind)) {
          const int64_t time_ps = costs->time_ps(kind, 1 << 30);
          EXPECT_TRUE(time_ps >= costs->time_ps(kind, 1) && time_ps <= kLongestPs) << text;
        }
      }
    } else {
      EXPECT_EQ(costs.error().message.find('\n'), std::string::npos) << text;
      EXPECT_EQ(costs.error().message.rfind("f:", 0), 0U) << text;
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace pleach
