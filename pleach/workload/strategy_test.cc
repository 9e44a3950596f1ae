#include "pleach/workload/strategy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(ParseStrategy, FillsDataParallelismFromTheRanks) {
  const struct {
    std::string text;
    int32_t rank_count;
    std::string canonical;
  } cases[] = {
      {"", 8, "dp=8"},
      {"dp=1", 1, "dp=1"},
      {"tp=2", 8, "dp=4,tp=2"},
      {"dp=4,tp=2,pp=2,sp=1,ep=1,micro_batches=8,schedule=1f1b,zero=1", 16,
       "dp=4,tp=2,pp=2,micro_batches=8,zero=1"},
      {"tp=3,pp=2,schedule=gpipe,idle=2", 20, "dp=3,tp=3,pp=2,schedule=gpipe,idle=2"},
      {"sp=2,ep=4,stream=100GB/s,tensor_sequence=on", 8,
       "dp=4,sp=2,ep=4,tensor_sequence=on,stream=100000000000B/s"},
      {"tp=2,pp=2,outputs=multicast", 4, "dp=1,tp=2,pp=2,outputs=multicast"},
      {"placement=dp-pp-sp-tp", 2, "dp=2,placement=dp-pp-sp-tp"},
      {"tp=2,placement=0-2-1-3", 4, "dp=2,tp=2,placement=0-2-1-3"},
      {"tp=2,idle=1,placement=4-2-1-3", 5, "dp=2,tp=2,placement=4-2-1-3,idle=1"},
      {"placement=0", 1, "dp=1,placement=0"},
      {"tp=2,placement=fred", 4, "dp=2,tp=2"},
      {"tp=2,placement=mesh,placement_seed=7", 4, "dp=2,tp=2,placement=mesh,placement_seed=7"},
      {"placement=search", 4, "dp=4,placement=search"},
  };
  for (const auto& one : cases) {
    const Result<Strategy> strategy = parse_strategy(one.text, one.rank_count);
    ASSERT_TRUE(strategy) << one.text << ": " << strategy.error().message;
    EXPECT_EQ(to_text(*strategy), one.canonical);
  }
}

TEST(ParseStrategy, NamesWhatIsWrong) {
  const struct {
    std::string text;
    int32_t rank_count;
    std::string message;
  } cases[] = {
      {"tp=3", 8, "strategy: tp=3 x pp=1 x sp=1 does not divide 8 ranks"},
      {"tp=2,idle=1", 8, "strategy: tp=2 x pp=1 x sp=1 does not divide 8 ranks less 1 idle"},
      {"dp=3,tp=2", 8, "strategy: dp=3 x tp=2 x pp=1 x sp=1 is not 8 ranks"},
      {"tp=2147483647,pp=2147483647,sp=2147483647", 8,
       "strategy: tp=2147483647 x pp=2147483647 x sp=2147483647 does not divide 8 ranks"},
      {"dp=2147483647,tp=2147483647,pp=2147483647", 8,
       "strategy: dp=2147483647 x tp=2147483647 x pp=2147483647 x sp=1 is not 8 ranks"},
      {"ep=3", 8, "strategy: ep=3 does not divide dp=8"},
      {"idle=8", 8, "strategy: 8 of 8 ranks are idle"},
      {"placement=tp-dp", 8,
       "strategy: placement 'tp-dp' does not name each of tp, sp, pp, dp once, as tp-sp-pp-dp "
       "does, and is none of fred, mesh and search"},
      {"placement=tp-tp-pp-dp", 8,
       "strategy: placement 'tp-tp-pp-dp' does not name each of tp, sp, pp, dp once, as "
       "tp-sp-pp-dp does, and is none of fred, mesh and search"},
      {"tp=2,placement=0-2-1-2", 4, "strategy: placement: rank 2 is there twice"},
      {"tp=2,placement=0-2-3", 4,
       "strategy: placement: 3 ranks for the 4 places of dp=2 x tp=2 x pp=1 x sp=1; rank 1 is "
       "missing"},
      {"tp=2,placement=0-2-1-4", 4, "strategy: placement: rank '4' is outside 0 to 3"},
      {"tp=2,placement=0-2--1-3", 4, "strategy: placement: rank '' is not a whole number"},
      {"tp=2,idle=4,placement=0-2-1-4-5", 8,
       "strategy: placement: 5 ranks for the 4 places of dp=2 x tp=2 x pp=1 x sp=1"},
      {"dp=2,dp=2", 2, "strategy: option 'dp' is given twice"},
  };
  for (const auto& one : cases) {
    const Result<Strategy> strategy = parse_strategy(one.text, one.rank_count);
    ASSERT_FALSE(strategy) << one.text;
    EXPECT_EQ(strategy.error().message, one.message);
    EXPECT_EQ(strategy.error().code, ErrorCode::kInvalidArgument);
  }
  for (const char* text : {"mp=2", "tp=0", "dp=-1", "dp=", "tp", "zero=4", "schedule=zigzag",
                           "tensor_sequence=2", "stream=0", "stream=fast", "micro_batches=0", "=1",
                           ",", "dp=1,", "tp=99999999999999999999"}) {
    const Result<Strategy> strategy = parse_strategy(text, 8);
    ASSERT_FALSE(strategy) << text;
    EXPECT_EQ(strategy.error().message.find('\n'), std::string::npos) << text;
  }
}

TEST(ParseStrategy, ReadsThePlacesOfRanksFromAFile) {
  const std::string path = testing::TempDir() + "/strategy_test_places.json";
  const auto parse = [&](const std::string& content) {
    std::ofstream(path) << content;
    return parse_strategy("tp=2,idle=1,placement=" + path, 5);
  };
  const Result<Strategy> strategy = parse("[3, 0,\n 4, 2]");
  ASSERT_TRUE(strategy) << strategy.error().message;
  EXPECT_EQ(strategy->rank_of_place, (std::vector<int32_t>{3, 0, 4, 2}));
  EXPECT_EQ(strategy->rank_end(), 5);
  const struct {
    std::string content;
    std::string message;
  } cases[] = {
      {"[3, 0,\n 5, 2]", path + ":2:2: '5' is no rank from 0 to 4"},
      {"[3, 0, -1, 2]", path + ":1:8: '-1' is no rank from 0 to 4"},
      {"[3, 0, 1.0, 2]", path + ":1:8: '1.0' is no rank from 0 to 4"},
      {"{}", path + ":1:1: not a JSON list of ranks, as [0, 4, 1, 5]"},
      {"[3, 0, 3, 2]", "strategy: placement: rank 3 is there twice"},
      {"[]", "strategy: placement: no ranks"},
  };
  for (const auto& one : cases) {
    const Result<Strategy> refused = parse(one.content);
    ASSERT_FALSE(refused) << one.content;
    EXPECT_EQ(refused.error().message, one.message);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(parse_strategy("placement=" + path, 5).error().code, ErrorCode::kIo);
}

auto fields_of(const Strategy& strategy) {
  return std::tie(strategy.data, strategy.tensor, strategy.pipeline, strategy.sequence,
                  strategy.expert, strategy.micro_batches, strategy.schedule, strategy.zero,
                  strategy.tensor_sequence, strategy.multicast_outputs, strategy.stream_bytes_per_s,
                  strategy.streams_by_io, strategy.placement, strategy.rank_of_place,
                  strategy.idle);
}

TEST(ParseStrategy, ReadsWhatToTextPrints) {
  Rng rng(7);
  const auto draw = [&](uint64_t bound) { return static_cast<int32_t>(rng.below(bound)); };
  for (int32_t round = 0; round < 200; ++round) {
    Strategy strategy = {.tensor = 1 + draw(4),
                         .pipeline = 1 + draw(4),
                         .sequence = 1 + draw(3),
                         .expert = 1 + draw(3),
                         .micro_batches = 1 + draw(9),
                         .schedule = static_cast<PipelineSchedule>(draw(2)),
                         .zero = draw(4),
                         .tensor_sequence = draw(2) == 1,
                         .multicast_outputs = draw(2) == 1,
                         .stream_bytes_per_s = draw(2) * (1 + draw(1 << 30)),
                         .idle = draw(3)};
    strategy.streams_by_io = strategy.stream_bytes_per_s == 0 && draw(2) == 0;
    strategy.data = strategy.expert * (1 + draw(4));
    std::swap(strategy.placement[0], strategy.placement[at(draw(4))]);
    if (draw(4) == 0) {
      strategy.placement = Strategy().placement;
      strategy.rank_of_place.resize(at(strategy.rank_count()));
      std::iota(strategy.rank_of_place.rbegin(), strategy.rank_of_place.rend(), 0);
    }
    const Result<Strategy> again =
        parse_strategy(to_text(strategy), strategy.rank_count() + strategy.idle);
    ASSERT_TRUE(again) << to_text(strategy) << ": " << again.error().message;
    EXPECT_EQ(fields_of(*again), fields_of(strategy)) << to_text(strategy);
  }
}

// Whatever the text, there is a strategy that fits the ranks or an error of one line.
TEST(ParseStrategy, SurvivesAnyText) {
  Rng rng(17);
  const std::vector<std::string> words = {
      "tp=2", "pp=2",  "idle=1",  "placement=", "0",      "1",   "2",  "3",
      "-",    "tp-dp", "stream=", "/",          ",",      "=",   "99", "\n",
      "7",    ".json", "1GB/s",   "mesh",       "search", "fred"};
  int32_t parsed = 0;
  for (int32_t round = 0; round < 20'000; ++round) {
    std::string text;
    for (uint64_t count = rng.below(12); count > 0; --count) {
      text += words[rng.below(words.size())] + (rng.below(3) == 0 ? "," : "");
    }
    const Result<Strategy> strategy = parse_strategy(text, 8);
    if (strategy) {
      ++parsed;
      EXPECT_LE(strategy->rank_end(), 8) << text;
      EXPECT_TRUE(check_placement(*strategy)) << text;
    } else {
      EXPECT_EQ(strategy.error().message.find('\n'), std::string::npos) << text;
    }
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace pleach
