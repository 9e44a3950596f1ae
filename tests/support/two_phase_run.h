// Runs of a schedule compared with its two-phase pass, to the bit.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
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

// An operation to run, and the bits that it must give.
struct ExpectedRun {
  const Schedule* schedule;
  RunSetup setup;
  std::vector<Floats> inputs = {};    // by rank
  std::vector<Floats> expected = {};  // by rank
};

constexpr std::byte kBlankOutput{0xa5};

// Draws the inputs. False: the two-phase pass refuses the schedule.
inline bool expect_bits(ExpectedRun& run, Rng& rng) {
  float blank = 0;
  std::memset(&blank, std::to_integer<int>(kBlankOutput), sizeof(blank));
  const Result<Schedule> plain = expand(*run.schedule, nullptr);  // the pass knows no other
  if (!plain) {
    return false;
  }
  run.inputs = rounding_inputs(*run.schedule, run.setup.count, rng);
  auto expected = two_phase_outputs(*plain, run.setup.count, run.inputs, blank);
  if (!expected) {
    return false;
  }
  run.expected = std::move(*expected);
  return true;
}

inline void compare_bits(const ExpectedRun& run, const RunOutcome& outcome) {
  const Schedule& schedule = *run.schedule;
  const bool keeps_inputs = run.setup.in_place && is_to_root(schedule.collective);
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const auto index = at(rank);
    ASSERT_EQ(outcome.errors[index], "") << "rank " << rank;
    Floats wanted = run.expected[index];
    if (keeps_inputs && Rank{rank} != schedule.root) {
      const bool is_shard = gives_shards(schedule.collective);
      const int64_t begin = is_shard ? run.setup.count * rank / schedule.rank_count() : 0;
      std::ranges::copy(run.inputs[index], wanted.begin() + begin);
    }
    const auto bytes = std::as_bytes(std::span(wanted));
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), outcome.outputs[index].begin(),
                           outcome.outputs[index].end()))
        << "rank " << rank;
  }
  const Status replayed = replay(Order::build(schedule), outcome.records, run.setup.segment_count,
                                 schedule.symmetry ? schedule.rank_count() : 1);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().message;
}

// Runs them in flight together and compares every bit with the two-phase pass, and the records with
// the Cursor.
inline void expect_two_phase_bits(const std::vector<ExpectedRun>& runs) {
  std::vector<Flight> flights;
  for (const ExpectedRun& run : runs) {
    flights.push_back({*run.schedule, run.setup, [&run](Rank rank, std::span<std::byte> input) {
                         if (!input.empty()) {
                           std::memcpy(input.data(), run.inputs[rank.index()].data(), input.size());
                         }
                       }});
  }
  const std::vector<RunOutcome> outcomes = run_in_flight(flights, kBlankOutput);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE("operation " + std::to_string(i + 1));
    compare_bits(runs[i], outcomes[i]);
  }
}

// As those in flight, of one.
inline void expect_two_phase_bits(const Schedule& schedule, const RunSetup& setup, Rng& rng) {
  std::vector<ExpectedRun> runs = {{&schedule, setup}};
  ASSERT_TRUE(expect_bits(runs.front(), rng));
  expect_two_phase_bits(runs);
}

}  // namespace pleach::support
