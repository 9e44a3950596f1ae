// Every counterexample of a weaker rule, run by the Oracle: right under the rules, not under the
// weaker one.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"
#include "tests/support/oracle.h"

namespace pleach {
namespace {

using support::Counterexample;
using support::Expectation;
using support::Oracle;
using support::OracleRules;
using support::OracleVerdict;

constexpr int64_t kStateLimit = 400'000;
constexpr int32_t kWalks = 200;

Counterexample find(const std::string& name) {
  for (Counterexample& row : support::counterexamples()) {
    if (row.name == name) {
      return std::move(row);
    }
  }
  ADD_FAILURE() << "no counterexample " << name;
  return {};
}

OracleRules one_place(const Counterexample& row) {
  return {.segment_count = row.segment_count,
          .landing_places = 1,
          .scratch = OracleRules::Scratch::kByPeriod};
}

OracleVerdict explore(const Counterexample& row, const OracleRules& rules) {
  return Oracle(row.schedule, rules).explore(kStateLimit, false);
}

class Counterexamples : public testing::TestWithParam<Counterexample> {};

std::string name_of(const testing::TestParamInfo<Counterexample>& row) {
  return row.param.name;
}

// Never stuck with one landing place, always the same bits; in every interleaving where they can
// all be tried, else in random ones.
TEST_P(Counterexamples, KeepsItsPromiseUnderTheRules) {
  const Counterexample& row = GetParam();
  if (row.expectation == Expectation::kMalformed) {
    EXPECT_FALSE(check_form(row.schedule, nullptr).empty());
    return;
  }
  Oracle oracle(row.schedule, one_place(row));
  ASSERT_TRUE(oracle.fits());
  const OracleVerdict all = oracle.explore(kStateLimit, false);
  std::vector<OracleVerdict> verdicts = {all};
  for (uint64_t seed = 0; !all.decided && seed < kWalks; ++seed) {
    Rng rng(seed);
    verdicts.push_back(oracle.walk(rng));
  }
  std::set<uint64_t> results;
  for (const OracleVerdict& verdict : verdicts) {
    EXPECT_FALSE(verdict.stuck);
    EXPECT_EQ(verdict.empty_slot, row.expectation == Expectation::kEmptySlot);
    if (!verdict.results.empty()) {
      EXPECT_EQ(verdict.wrong, row.expectation == Expectation::kWrongValue);
      EXPECT_EQ(verdict.replicated, row.bitwise_replicated);
    }
    results.insert(verdict.results.begin(), verdict.results.end());
  }
  EXPECT_EQ(results.size(), row.executable() ? 1U : 0U);
}

// More segments than the failure needs, other periods and more places do no harm.
TEST_P(Counterexamples, IsNeverStuckUnderOtherSettings) {
  Counterexample row = GetParam();
  if (!row.executable()) {
    return;
  }
  Rng rng(11);
  for (int32_t walk = 0; walk < kWalks; ++walk) {
    OracleRules rules = one_place(row);
    rules.segment_count = 1 + static_cast<int32_t>(rng.below(3));
    rules.landing_places = 1 + static_cast<int32_t>(rng.below(3));
    row.schedule.period = 1 + static_cast<int32_t>(rng.below(4));
    Oracle oracle(row.schedule, rules);
    ASSERT_TRUE(oracle.fits());
    const OracleVerdict verdict = oracle.walk(rng);
    ASSERT_FALSE(verdict.stuck || verdict.empty_slot)
        << rules.segment_count << " segments, " << rules.landing_places << " places, period "
        << row.schedule.period;
    ASSERT_EQ(verdict.wrong, row.expectation == Expectation::kWrongValue);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Counterexamples, testing::ValuesIn(support::counterexamples()),
                         name_of);

struct StuckRow {
  std::string name;
  void (*weaken)(OracleRules& rules);
};

class WeakerRules : public testing::TestWithParam<StuckRow> {};

TEST_P(WeakerRules, GetStuck) {
  const Counterexample row = find(GetParam().name);
  OracleRules rules = one_place(row);
  GetParam().weaken(rules);
  EXPECT_TRUE(Oracle(row.schedule, rules).explore(kStateLimit, true).stuck) << row.weaker_rule;
}

INSTANTIATE_TEST_SUITE_P(
    All, WeakerRules,
    testing::Values(
        StuckRow{"exchange", [](OracleRules& rules) { rules.pull_only = true; }},
        StuckRow{"two_chunk_exchange",
                 [](OracleRules& rules) { rules.tie = OracleRules::Tie::kNone; }},
        StuckRow{"interval_against_pieces",
                 [](OracleRules& rules) { rules.messages_commit_whole = true; }},
        StuckRow{"two_exchanges", [](OracleRules& rules) { rules.tie = OracleRules::Tie::kChunk; }},
        StuckRow{"chunk_before_segment",
                 [](OracleRules& rules) { rules.tie = OracleRules::Tie::kChunkThenSegment; }},
        StuckRow{"reservation_per_connection",
                 [](OracleRules& rules) { rules.receiver_reserves = true; }},
        StuckRow{"fused_reduction", [](OracleRules& rules) { rules.fusion_waits = true; }},
        StuckRow{"scratch_of_one_segment",
                 [](OracleRules& rules) { rules.scratch = OracleRules::Scratch::kOneSegment; }}),
    [](const testing::TestParamInfo<StuckRow>& row) { return row.param.name; });

TEST(WeakerRules, AliasedSlotsGiveThreeResults) {
  const Counterexample row = find("in_place_all_to_all");
  OracleRules rules;
  rules.aliased = true;
  const OracleVerdict verdict = explore(row, rules);
  EXPECT_TRUE(verdict.wrong);
  EXPECT_EQ(verdict.results.size(), 3U);
}

TEST(WeakerRules, NodeOrderGivesOtherBits) {
  const Counterexample row = find("participants_out_of_order");
  OracleRules by_node;
  by_node.sources_by_node = true;
  const OracleVerdict ours = explore(row, {}), theirs = explore(row, by_node);
  ASSERT_EQ(ours.results.size(), 1U);
  ASSERT_EQ(theirs.results.size(), 1U);
  EXPECT_NE(ours.results, theirs.results);
  EXPECT_FALSE(theirs.wrong);
}

TEST(WeakerRules, ArrivalsThatCommitOneByOneMisplaceTheOwnValue) {
  const Counterexample row = find("one_shot_by_rank");
  OracleRules early;
  early.folds_early = true;
  const OracleVerdict ours = explore(row, {}), theirs = explore(row, early);
  EXPECT_TRUE(ours.right() && ours.replicated);
  EXPECT_TRUE(theirs.right());
  EXPECT_FALSE(theirs.replicated);
}

// What a pass that commits as it reads believes each rank of a one-chunk schedule on two ranks
// holds: how often it counts x0 and x1.
using Counts = std::pair<int32_t, int32_t>;
std::vector<Counts> one_phase_pass(const Schedule& schedule) {
  std::vector<Counts> ranks = {{1, 0}, {0, 1}};
  for (const Transfer& transfer : schedule.transfers) {
    const Counts from = ranks[transfer.source.index()];
    Counts& to = ranks[transfer.target.index()];
    const int32_t keep = transfer.op == TransferOp::kReduce ? 1 : 0;
    to = {from.first + keep * to.first, from.second + keep * to.second};
  }
  return ranks;
}

TEST(WeakerRules, OnePhasePassIsWrongBothWays) {
  const std::vector<Counts> all = {{1, 1}, {1, 1}};
  EXPECT_NE(one_phase_pass(find("exchange").schedule), all);
  EXPECT_EQ(one_phase_pass(find("reduce_against_copy").schedule), all);
}

// (x0 + x1) + x2 against (x2 + x0) + x1.
TEST(WeakerRules, ReplicasOfAOneShotDrift) {
  const float x0 = 1.0F, x1 = 0x1p-24F, x2 = -1.0F;
  const float rank_0 = (x0 + x1) + x2, rank_2 = (x2 + x0) + x1;
  EXPECT_EQ(rank_0, 0.0F);
  EXPECT_EQ(rank_2, 0x1p-24F);
}

// The minimum of 0 and -0, or of a number and a NaN, keeps the first.
TEST(WeakerRules, ReplicasOfAnExchangeDriftWhereTheOrderOfTwoShows) {
  const auto least = [](float first, float second) { return second < first ? second : first; };
  EXPECT_NE(std::signbit(least(0.0F, -0.0F)), std::signbit(least(-0.0F, 0.0F)));
  EXPECT_NE(std::isnan(least(NAN, 1)), std::isnan(least(1, NAN)));
}

}  // namespace
}  // namespace pleach
