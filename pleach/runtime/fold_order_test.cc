// Folds by rank: ranks that fold the same values in one step get the same bits, whatever the
// reduction, the transport, the segments and what arrives when.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::Floats;
using support::RunOutcome;
using support::RunSetup;

// Every rank sends its whole buffer to all others.
Schedule one_shot(int32_t rank_count, FoldOrder fold_order) {
  std::vector<support::Move> moves;
  for (int32_t source = 0; source < rank_count; ++source) {
    for (int32_t target = 0; target < rank_count; ++target) {
      if (source != target) {
        moves.push_back({.first_chunk = 0, .chunk_count = 1, .source = source, .target = target});
      }
    }
  }
  return support::make_schedule({.rank_count = rank_count, .fold_order = fold_order}, moves);
}

// 0, -0, numbers and a NaN, so that the order of any two shows.
float value_of(Rank rank, std::size_t index) {
  constexpr std::array kValues = {0.0F, -0.0F, 1.0F, 0x1p-24F, -1.0F, NAN};
  return kValues[(rank.index() * 5 + index * 7 + index / kValues.size()) % kValues.size()];
}

float fold(ReduceOp op, float left, float right) {
  switch (op) {
    case ReduceOp::kMin:
      return right < left ? right : left;
    case ReduceOp::kMax:
      return left < right ? right : left;
    default:
      return left + right;
  }
}

Floats folded_by_rank(int32_t rank_count, ReduceOp op, int64_t count) {
  Floats values;
  for (std::size_t i = 0; i < at(count); ++i) {
    float value = value_of(Rank{0}, i);
    for (int32_t rank = 1; rank < rank_count; ++rank) {
      value = fold(op, value, value_of(Rank{rank}, i));
    }
    values.push_back(value);
  }
  return values;
}

bool has_bits(const support::Bytes& bytes, const Floats& values) {
  bool is_same = bytes.size() == values.size() * sizeof(float);
  for (std::size_t i = 0; is_same && i < values.size(); ++i) {
    float found = 0;
    std::memcpy(&found, bytes.data() + i * sizeof(float), sizeof(float));
    is_same = std::isnan(values[i]) ? std::isnan(found)
                                    : std::memcmp(&found, &values[i], sizeof(float)) == 0;
  }
  return is_same;
}

TEST(FoldOrderTest, OneShotExchangesByRankGiveAllRanksTheSerialFold) {
  constexpr int64_t kCount = 5000;  // more than a kernel's block
  uint64_t draw = 0;
  for (const std::string transport : {"inproc", "shm", "tcp"}) {
    for (const int32_t ranks : {1, 2, 3, 5}) {
      const Schedule schedule = one_shot(ranks, FoldOrder::kByRank);
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
        const bool in_place = ++draw % 2 == 0;
        const RunSetup setup = {.op = op,
                                .count = kCount,
                                .segment_count = static_cast<int32_t>(1 + draw % 3),
                                .in_place = in_place,
                                .transport = transport,
                                .delay_seed = draw,
                                .lenders = draw % 4};
        SCOPED_TRACE(transport + ", " + std::to_string(ranks) + " ranks, " +
                     std::string(to_text(op)) + (in_place ? ", in place" : ""));
        const RunOutcome outcome =
            support::run_schedule(schedule, setup, [](Rank rank, std::span<std::byte> input) {
              for (std::size_t i = 0; i < input.size() / sizeof(float); ++i) {
                const float value = value_of(rank, i);
                std::memcpy(input.data() + i * sizeof(float), &value, sizeof(float));
              }
            });
        for (int32_t rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(outcome.errors[at(rank)], "");
          EXPECT_TRUE(has_bits(outcome.outputs[at(rank)], folded_by_rank(ranks, op, kCount)))
              << "rank " << rank;
        }
      }
    }
  }
}

// Any schedule, of both orders: the two-phase pass knows where own values stand.
TEST(FoldOrderTest, RandomSchedulesGiveTheBitsOfTheTwoPhasePass) {
  constexpr uint64_t kSeed = 77;
  Rng rng(kSeed);
  int32_t by_rank = 0;
  const int32_t rounds = support::repeated(150);
  for (int32_t round = 0; round < rounds; ++round) {
    const Schedule schedule = support::random_schedule({.most_ranks = 5, .most_moves = 16}, rng);
    SCOPED_TRACE("round " + std::to_string(round) + ", seed " + std::to_string(kSeed));
    support::ExpectedRun run = {&schedule,
                                {.count = static_cast<int64_t>(rng.below(400)) * 30,
                                 .segment_count = static_cast<int32_t>(1 + rng.below(3)),
                                 .landing_places = static_cast<int32_t>(1 + rng.below(2)),
                                 .in_place = rng.below(2) == 0,
                                 .delay_seed = rng.below(1000),
                                 .lenders = rng.below(32)}};
    if (support::expect_bits(run, rng)) {
      by_rank += schedule.fold_order == FoldOrder::kByRank ? 1 : 0;
      support::expect_two_phase_bits({run});
    }
  }
  EXPECT_GT(by_rank, rounds / 20);
}

}  // namespace
}  // namespace pleach
