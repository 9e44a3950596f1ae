// float16 and bfloat16: every step of a slot is one fold, rounded once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "pleach/base/element.h"
#include "pleach/base/index.h"
#include "tests/support/halves.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"
#include "tests/support/two_phase_run.h"

namespace pleach {
namespace {

using support::Floats;
using support::Halves;
using support::kType;
using support::rounded;
using support::RunOutcome;
using support::RunSetup;

template <typename T>
class HalfTypesTest : public testing::Test {};
TYPED_TEST_SUITE(HalfTypesTest, Halves);

// By rank: values of the type whose sums round, and do not overflow.
template <typename T>
std::vector<Floats> half_inputs(const Schedule& schedule, int64_t count, Rng& rng) {
  std::vector<Floats> inputs = support::rounding_inputs(schedule, count, rng);
  for (Floats& input : inputs) {
    for (float& value : input) {
      value = rounded<T>(value / 4096);
    }
  }
  return inputs;
}

template <typename T>
RunOutcome run_halves(const Schedule& schedule, const RunSetup& setup,
                      const std::vector<Floats>& inputs) {
  return support::run_schedule(schedule, setup, [&](Rank rank, std::span<std::byte> input) {
    auto* const values = reinterpret_cast<T*>(input.data());
    std::ranges::transform(inputs[rank.index()], values,
                           [](float value) { return narrow<T>(value); });
  });
}

template <typename T>
Floats widened(const support::Bytes& bytes) {
  Floats values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * sizeof(T)), sizeof(T),
                std::as_writable_bytes(std::span(&value, 1)).begin());
    values[i] = widen(value);
  }
  return values;
}

// Whether the two-phase pass, rounding once a step, knows the schedule; the runs give its bits.
template <typename T>
bool expect_whole_steps(const Schedule& schedule, RunSetup setup, Rng& rng) {
  setup.type = kType<T>;
  const std::vector<Floats> inputs = half_inputs<T>(schedule, setup.count, rng);
  const float blank = widen(T{0xa5a5});
  const auto expected =
      support::two_phase_outputs(schedule, setup.count, inputs, blank, rounded<T>);
  if (!expected) {
    return false;
  }
  const RunOutcome outcome = run_halves<T>(schedule, setup, inputs);
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    EXPECT_EQ(outcome.errors[at(rank)], "");
    EXPECT_EQ(widened<T>(outcome.outputs[at(rank)]), (*expected)[at(rank)]) << "rank " << rank;
  }
  const Status replayed = replay(Order::build(schedule), outcome.records, setup.segment_count, 1);
  EXPECT_TRUE(replayed.has_value()) << replayed.error().message;
  return true;
}

TYPED_TEST(HalfTypesTest, RandomSchedulesFoldWholeStepsWhateverTheDelays) {
  constexpr uint64_t kSeed = 20261124;
  Rng rng(kSeed);
  int32_t executed = 0;
  for (int32_t round = 0; round < support::repeated(300); ++round) {
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", round " + std::to_string(round));
    const Schedule schedule = support::random_schedule({}, rng);
    const bool is_run = expect_whole_steps<TypeParam>(schedule,
                                                      {.count = static_cast<int64_t>(rng.below(20)),
                                                       .segment_count = 1 + support::pick(rng, 4),
                                                       .landing_places = 1 + support::pick(rng, 2),
                                                       .delay_seed = rng.below(1000)},
                                                      rng);
    executed += is_run ? 1 : 0;
  }
  EXPECT_GT(executed, 80);
}

// More sources in a step than any array of a fixed size had room for, with one place each.
TYPED_TEST(HalfTypesTest, StepsOfManySourcesAreOneFold) {
  const Schedule direct = support::direct_schedule(CollectiveKind::kAllReduce, 21);
  Rng rng(4);
  for (uint64_t seed = 1; seed < 4; ++seed) {
    EXPECT_TRUE(expect_whole_steps<TypeParam>(
        direct, {.count = 100, .segment_count = 2, .landing_places = 1, .delay_seed = seed}, rng));
  }
}

// The largest error of any element, in units of the type's rounding times the sum of magnitudes.
template <typename T>
double worst_error(const Schedule& schedule, Rng& rng) {
  constexpr int64_t kCount = 1600;
  const int32_t ranks = schedule.rank_count();
  std::vector<Floats> inputs(at(ranks), Floats(kCount));
  std::vector<double> exact(kCount, 0), magnitudes(kCount, 0);
  for (Floats& input : inputs) {
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = rounded<T>(static_cast<float>(rng.unit() + 0.5));
      exact[i] += input[i];
      magnitudes[i] += std::abs(input[i]);
    }
  }
  const RunOutcome outcome = run_halves<T>(schedule, {.type = kType<T>, .count = kCount}, inputs);
  double worst = 0;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(outcome.errors[at(rank)], "");
    const Floats result = widened<T>(outcome.outputs[at(rank)]);
    for (std::size_t i = 0; i < result.size(); ++i) {
      worst = std::max(worst, std::abs(result[i] - exact[i]) / magnitudes[i]);
    }
  }
  return worst;
}

// |error| ≤ ((1 + u)^depth (1 + 2^-24)^(ranks - 1) - 1) · sum of magnitudes: docs/runtime.md.
TYPED_TEST(HalfTypesTest, TheErrorGrowsWithTheDepthOfFoldsAsDerived) {
  constexpr int32_t kRanks = 16;
  const double unit = std::ldexp(1, std::is_same_v<TypeParam, Float16> ? -11 : -8);
  const struct {
    const char* name;
    int32_t depth;
    Schedule schedule;
  } rows[] = {{"direct", 1, support::direct_schedule(CollectiveKind::kAllReduce, kRanks)},
              {"halving", 4, support::halving_schedule(kRanks)},
              {"ring", 15, support::ring_schedule(CollectiveKind::kAllReduce, kRanks)}};
  Rng rng(8);
  double before = 0;
  for (const auto& [name, depth, schedule] : rows) {
    const double bound =
        std::pow(1 + unit, depth) * std::pow(1 + std::ldexp(1, -24), kRanks - 1) - 1;
    const double worst = worst_error<TypeParam>(schedule, rng);
    this->RecordProperty(name, std::to_string(worst / unit));
    EXPECT_LE(worst, bound) << name;
    EXPECT_GT(worst, before) << name;
    before = worst;
  }
}

}  // namespace
}  // namespace pleach
