#include "pleach/fabric/placement_study.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(PlacementStudy, PhasesMoveWithTheirWorkers) {
  const auto phases = placed_phases({2, 1, 2}, {3, 0, 2, 1});
  ASSERT_EQ(phases.size(), 3U);  // MP, PP forward, PP backward
  EXPECT_EQ(flows_text(phases[0]), "0,3->0,3; 1,2->1,2");
  EXPECT_EQ(flows_text(phases[1]), "3->1,2");
  EXPECT_EQ(flows_text(phases[2]), "2->0,3");
}

// All placements of pairs on FRED_2(6): a partition into three pairs is that of 48 of the 720
// placements of MP2-DP3-PP1. Of the 15 partitions 8 do not route; DP's two groups of three always
// do.
TEST(PlacementStudy, AllPlacementsOfPairsAreThePartitions) {
  const auto count = count_random_placements({6, 2}, {{2, 3, 1}}, 0, 1, {});
  ASSERT_TRUE(count);
  EXPECT_EQ(count->sets, 720);
  EXPECT_EQ(count->refused, 8 * 48);
  EXPECT_EQ(count->routed, 720 - 8 * 48);
  const auto wider = count_random_placements({6, 3}, {{2, 3, 1}}, 0, 1, {});
  ASSERT_TRUE(wider);
  EXPECT_EQ(wider->routed, 720);
}

// A sample comes near the exact share, its interval holds it, and the seed decides.
TEST(PlacementStudy, RandomPlacementsComeNearAllOfThem) {
  const auto strategies = strategies_of(6);
  EXPECT_EQ(strategies.size(), 9U);
  const auto exact = count_random_placements({6, 2}, strategies, 0, 1, {});
  const auto sample = count_random_placements({6, 2}, strategies, 500, 7, {});
  ASSERT_TRUE(exact && sample);
  EXPECT_EQ(sample->sets, 4500);
  const Share share = share_of(sample->routed, sample->sets);
  const double value = share_of(exact->routed, exact->sets).value;
  EXPECT_LE(share.low, value);
  EXPECT_GE(share.high, value);
  const auto again = count_random_placements({6, 2}, strategies, 500, 7, {});
  EXPECT_EQ(again->routed, sample->routed);
  EXPECT_LE(sample->first_routed, sample->routed);
}

TEST(PlacementStudy, FindsTheLeastMiddle) {
  for (const auto& [workload, strategy] : strategies_of_workloads()) {
    const auto least = least_middle(20, strategy, 20, 1, {});
    ASSERT_TRUE(least) << workload;
    EXPECT_GE(least->in_order, 2);
    EXPECT_LE(least->in_order, 3) << workload;
    int64_t sets = 0;
    for (const auto& [middle, count] : least->random) {
      EXPECT_GE(middle, 2) << workload;
      sets += count;
    }
    EXPECT_EQ(sets, 20);
  }
  // One group of all: a single flow is in nobody's way.
  EXPECT_EQ(least_middle(20, {1, 20, 1}, 5, 1, {})->random, (std::map<int32_t, int64_t>{{2, 5}}));
  // Of a switch that is too large nothing is said.
  EXPECT_EQ(least_middle(10'000'000, {1, 20, 1}, 5, 1, {}).error().message,
            "FRED_2(10000000) has over 10000000 cells");
  const auto wider = least_middle(100'000, {3, 3, 2}, 5, 1, {});  // in order it takes m = 3
  ASSERT_FALSE(wider);
  EXPECT_EQ(wider.error().message, "FRED_3(100000) has over 10000000 cells");
}

TEST(PlacementStudy, NamesWhatIsWrong) {
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {"5,4", "'5,4' is not MP,DP,PP, as 5,4,1"},
      {"5,4,0", "PP '0' is outside 1 to 2147483647"},
      {"x,4,1", "MP 'x' is not a whole number"},
      {"65536,65536,1", "'65536,65536,1' is of over 2147483647 workers"},
  };
  for (const auto& [text, message] : cases) {
    const auto strategy = parse_switch_strategy(text);
    ASSERT_FALSE(strategy) << text;
    EXPECT_EQ(strategy.error().message, message);
  }
  EXPECT_EQ(count_random_placements({4, 2}, {{5, 1, 1}}, 1, 1, {}).error().message,
            "MP5-DP1-PP1 is of 5 workers: the switch has 4 ports");
  EXPECT_EQ(count_random_placements({9, 2}, {{3, 3, 1}}, 0, 1, {}).error().message,
            "all placements on 9 ports: at most 8 are enumerated");
}

// Whatever the text, there is a strategy of at least one worker or an error of one line.
TEST(PlacementStudy, SurvivesAnyText) {
  Rng rng(5);
  const std::vector<std::string> words = {"1", "2", "20", ",",  ",",           ",",
                                          "-", "x", " ",  "\n", "99999999999", "2147483647"};
  int32_t parsed = 0;
  for (int32_t round = 0; round < 60'000; ++round) {
    std::string text;
    for (uint64_t count = rng.below(8); count > 0; --count) {
      text += words[rng.below(words.size())];
    }
    const auto strategy = parse_switch_strategy(text);
    if (strategy) {
      ++parsed;
      EXPECT_EQ(parse_switch_strategy(
                    fmt::format("{},{},{}", strategy->model, strategy->data, strategy->pipeline))
                    ->data,
                strategy->data);
    } else {
      EXPECT_EQ(strategy.error().message.find('\n'), std::string::npos) << text;
    }
  }
  EXPECT_GT(parsed, 2);
}

}  // namespace
}  // namespace pleach
