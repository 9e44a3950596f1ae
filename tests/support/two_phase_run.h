// Runs of a schedule compared with its two-phase pass, to the bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/record.h"
#include "pleach/collective/schedule.h"
#include "tests/support/rank_threads.h"
#include "tests/support/two_phase.h"

namespace pleach::support {

// By rank: values whose sums round, so that every order of additions shows.
inline std::vector<Floats> rounding_inputs(const Schedule& schedule, int64_t count, Rng& rng) {
  const Result<Placement> placement = Placement::create(schedule, count);
  std::vector<Floats> inputs;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    Floats& input = inputs.emplace_back(at(placement->sizes(Rank{rank}).input));
    for (float& value : input) {
      value = static_cast<float>((rng.unit() - 0.5) * static_cast<double>(1 << rng.below(24)));
    }
  }
  return inputs;
}

// Runs on executors and compares every bit with the two-phase pass, and the record with the Cursor.
inline void expect_two_phase_bits(const Schedule& schedule, const RunSetup& setup, Rng& rng) {
  constexpr std::byte kBlank{0xa5};
  float blank = 0;
  std::memset(&blank, std::to_integer<int>(kBlank), sizeof(blank));
  const Result<Schedule> plain = expand(schedule, nullptr);  // the pass knows no other
  ASSERT_TRUE(plain.has_value()) << plain.error().message;
  const std::vector<Floats> inputs = rounding_inputs(schedule, setup.count, rng);
  const auto expected = two_phase_outputs(*plain, setup.count, inputs, blank);
  ASSERT_TRUE(expected.has_value());
  const RunOutcome outcome = run_schedule(
      schedule, setup,
      [&](Rank rank, std::span<std::byte> input) {
        if (!input.empty()) {
          std::memcpy(input.data(), inputs[rank.index()].data(), input.size());
        }
      },
      kBlank);
  const bool keeps_inputs = setup.in_place && schedule.collective == CollectiveKind::kReduce;
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto index = at(rank);
    ASSERT_EQ(outcome.errors[index], "") << "rank " << rank;
    const Floats& wanted =
        keeps_inputs && Rank{rank} != schedule.root ? inputs[index] : (*expected)[index];
    const auto bytes = std::as_bytes(std::span(wanted));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), outcome.outputs[index].begin(),
                           outcome.outputs[index].end()))
        << "rank " << rank;
  }
  const Status replayed = replay(Order::build(schedule), outcome.records, setup.segment_count,
                                 schedule.symmetry ? schedule.rank_count() : 1);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().message;
}

}  // namespace pleach::support
