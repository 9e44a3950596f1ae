// The verifier against the Oracle: random schedules, and mutants of schedules that are correct.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"
#include "tests/support/random_streams.h"
#include "tests/support/verdicts.h"

namespace pleach {
namespace {

using support::VerdictCounts;

TEST(Oracle, AgreesOnRandomSchedules) {
  VerdictCounts counts;
  for (int32_t seed = 0; seed < support::repeated(20'000) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    compare_verdicts(support::random_schedule({.most_ranks = 3, .most_moves = 6}, rng), counts,
                     rng);
  }
  std::cout << counts.text() << "\n";
  EXPECT_EQ(counts.refused_by_form, 0);
  EXPECT_GT(counts.correct, 20);
  EXPECT_LT(counts.undecided * 100, counts.schedules);
}

TEST(Oracle, AgreesOnMutantsOfTheCounterexamples) {
  VerdictCounts counts;
  const auto rows = support::counterexamples();
  for (int32_t seed = 0; seed < support::repeated(12'000) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    Schedule schedule = rows[rng.below(rows.size())].schedule;
    for (uint64_t count = rng.below(3); count > 0 && !schedule.transfers.empty(); --count) {
      support::mutate(schedule, rng.below(support::kMutations.size()), rng);
    }
    compare_verdicts(schedule, counts, rng);
  }
  std::cout << counts.text() << "\n";
  EXPECT_GT(counts.correct, 100);
  EXPECT_GT(counts.incorrect, 100);
  EXPECT_LT(counts.undecided * 100, counts.schedules);
}

TEST(Oracle, AgreesOnStreamsThatPassSwitchesTwice) {
  VerdictCounts counts;
  for (int32_t seed = 0; seed < support::repeated(12'000) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    Schedule schedule = support::random_streams(rng);
    for (uint64_t count = rng.below(3); count > 0 && !schedule.transfers.empty(); --count) {
      support::mutate_streams(schedule, rng);
    }
    compare_verdicts(schedule, counts, rng);
  }
  std::cout << counts.text() << "\n";
  EXPECT_GT(counts.correct, 300);
  EXPECT_GT(counts.incorrect, 300);
  EXPECT_GT(counts.refused_by_form, 300);
  EXPECT_LT(counts.undecided * 50, counts.schedules);
}

}  // namespace
}  // namespace pleach
