#include "pleach/workload/strategy.h"

#include <gtest/gtest.h>

#include <tuple>

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
      {"tp=3,pp=2,schedule=gpipe,idle=2", 20, "dp=3,tp=3,pp=2,schedule=gpipe"},
      {"sp=2,ep=4,stream=100GB/s,tensor_sequence=on", 8,
       "dp=4,sp=2,ep=4,tensor_sequence=on,stream=100000000000B/s"},
      {"placement=dp-pp-sp-tp", 2, "dp=2,placement=dp-pp-sp-tp"},
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
       "does"},
      {"placement=tp-tp-pp-dp", 8,
       "strategy: placement 'tp-tp-pp-dp' does not name each of tp, sp, pp, dp once, as "
       "tp-sp-pp-dp does"},
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

auto fields_of(const Strategy& strategy) {
  return std::tie(strategy.data, strategy.tensor, strategy.pipeline, strategy.sequence,
                  strategy.expert, strategy.micro_batches, strategy.schedule, strategy.zero,
                  strategy.tensor_sequence, strategy.stream_bytes_per_s, strategy.placement);
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
                         .stream_bytes_per_s = draw(2) * (1 + draw(1 << 30))};
    strategy.data = strategy.expert * (1 + draw(4));
    std::swap(strategy.placement[0], strategy.placement[at(draw(4))]);
    const Result<Strategy> again = parse_strategy(to_text(strategy), strategy.rank_count());
    ASSERT_TRUE(again) << to_text(strategy) << ": " << again.error().message;
    EXPECT_EQ(fields_of(*again), fields_of(strategy)) << to_text(strategy);
  }
}

}  // namespace
}  // namespace pleach
