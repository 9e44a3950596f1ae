// Verdicts: the verifier's judgement of schedules, compared with the Oracle's.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/verify.h"
#include "tests/support/oracle.h"

namespace pleach::support {

struct VerdictCounts {
  int64_t schedules = 0;
  int64_t refused_by_form = 0;
  int64_t refused_though_working = 0;  // of those, what every interleaving gets right
  int64_t correct = 0;
  int64_t incorrect = 0;
  int64_t undecided = 0;  // more states than the limit
  int64_t states = 0;

  std::string text() const {
    return std::to_string(schedules) + " schedules: " + std::to_string(correct) + " correct, " +
           std::to_string(incorrect) + " incorrect, " + std::to_string(refused_by_form) +
           " refused by form (" + std::to_string(refused_though_working) +
           " of them would have worked), " + std::to_string(undecided) + " undecided; " +
           std::to_string(states) + " states";
  }
};

// In all interleavings of the whole schedule where they are few enough, else chunk by chunk: what
// happens to a chunk depends on no other, but that a message is read at once, and that only
// forbids.
inline OracleVerdict judge_by_oracle(const Schedule& schedule) {
  constexpr int64_t kJointLimit = 1'500, kChunkLimit = 20'000;
  OracleVerdict verdict = Oracle(schedule, {}).explore(kJointLimit, true);
  if (verdict.decided) {
    return verdict;
  }
  const int64_t spent = verdict.state_count;
  verdict = {};
  verdict.state_count = spent;
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    const OracleVerdict part = Oracle(schedule, {}, chunk).explore(kChunkLimit, true);
    verdict.decided = verdict.decided && part.decided;
    verdict.stuck = verdict.stuck || part.stuck;
    verdict.empty_slot = verdict.empty_slot || part.empty_slot;
    verdict.wrong = verdict.wrong || part.wrong;
    verdict.replicated = verdict.replicated && part.replicated;
    verdict.state_count += part.state_count;
    if (verdict.stuck || verdict.empty_slot || verdict.wrong) {
      verdict.decided = true;
      break;
    }
  }
  return verdict;
}

// Compares the verdicts on one schedule, and walks it with one landing place. A schedule that
// passes form is never stuck; one that the verifier accepts is right in every interleaving and the
// reverse.
inline void compare_verdicts(const Schedule& schedule, VerdictCounts& counts, Rng& rng) {
  ++counts.schedules;
  const Verification verification = verify(schedule, nullptr);
  const bool well_formed = check_form(schedule, nullptr).empty();
  ASSERT_EQ(verification.correct, verification.violations.empty());
  const OracleVerdict verdict = judge_by_oracle(schedule);
  counts.states += verdict.state_count;
  if (!well_formed) {
    ASSERT_FALSE(verification.correct);
    ++counts.refused_by_form;
    counts.refused_though_working += verdict.right() ? 1 : 0;
    return;
  }
  ASSERT_FALSE(verdict.stuck);
  if (!verdict.decided) {
    ++counts.undecided;
    return;
  }
  ++(verdict.right() ? counts.correct : counts.incorrect);
  ASSERT_EQ(verification.correct, verdict.right())
      << (verification.correct ? "accepted" : verification.violations.front());
  if (verdict.right()) {
    ASSERT_EQ(verification.bitwise_replicated, verdict.replicated);
  }
  OracleRules rules;
  rules.landing_places = 1;
  rules.segment_count = 1 + static_cast<int32_t>(rng.below(2));
  rules.scratch = OracleRules::Scratch::kByPeriod;
  const OracleVerdict walk = Oracle(schedule, rules).walk(rng);
  ASSERT_FALSE(walk.stuck);
  if (walk.decided) {
    ASSERT_EQ(walk.right(), verdict.right());
  }
}

}  // namespace pleach::support
