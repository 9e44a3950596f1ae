#include "pleach/network/flit/flit_clock.h"

#include <gtest/gtest.h>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(FlitClock, ACycleIsAFlitOnTheFastestLink) {
  EXPECT_EQ(FlitClock(16, 16'000'000'000).ps_of(7), 7'000);
  EXPECT_EQ(FlitClock(16, 16'000'000'000).cycle_of(7'000), 7);
  EXPECT_EQ(FlitClock(16, 16'000'000'000).cycle_of(7'001), 7);
  EXPECT_EQ(FlitClock(16, 16'000'000'000).cycle_of(7'002), 8);
  EXPECT_EQ(FlitClock(1, 3).ps_of(3), 1'000'000'000'000);  // thirds of a second
  EXPECT_EQ(FlitClock(1, 3).ps_of(1), 333'333'333'333);
  EXPECT_EQ(FlitClock(1, 3).cycle_of(333'333'333'333), 1);
  EXPECT_EQ(FlitClock(1, 3).cycle_of(0), 0);
}

// Cycles come back from picoseconds, also when up to three were added, each rounded down, or one of
// them up.
TEST(FlitClock, CyclesAddedAsPicosecondsAreThoseCycles) {
  Rng rng(20261126);
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(rng.below(static_cast<uint64_t>(bound)));
  };
  for (int32_t round = 0; round < 20'000; ++round) {
    const int64_t flit_bytes = 1 + below(round % 2 == 0 ? 64 : 1 << 20);
    const int64_t most = flit_bytes * 250'000'000'000;  // 4 ps
    const int64_t bytes_per_s = round % 3 == 0 ? most : 1 + below(most);
    const FlitClock clock(flit_bytes, bytes_per_s);
    ASSERT_GE(clock.ps_of(1), FlitClock::kShortestCyclePs);
    const int64_t longest = std::min<int64_t>(
        int64_t{1} << 40, (int64_t{1} << 60) / std::max<int64_t>(1, clock.ps_of(1)));
    const int64_t one = below(longest), two = below(longest), three = below(longest);
    ASSERT_EQ(clock.cycle_of(clock.ps_of(one)), one);
    ASSERT_EQ(clock.cycle_of(clock.ps_of(one) + clock.ps_of(two)), one + two);
    ASSERT_EQ(clock.cycle_of(clock.ps_of(one) + clock.ps_of(two) + clock.ps_of(three)),
              one + two + three);
    ASSERT_EQ(clock.cycle_of(clock.ps_of(one) + clock.ps_of(two) + 1), one + two);
    ASSERT_GE(clock.ps_of(one + 1), clock.ps_of(one) + FlitClock::kShortestCyclePs);
  }
}

TEST(FlitClock, TimesThatNothingReachesDoNotWrap) {
  EXPECT_EQ(FlitClock(1 << 20, 1).ps_of(int64_t{1} << 40), INT64_MAX);
  EXPECT_EQ(FlitClock(1 << 20, 1).ps_of(8), 8 * (int64_t{1'000'000'000'000} << 20));
  EXPECT_EQ(FlitClock(1 << 20, 1).ps_of(9), INT64_MAX);
}

}  // namespace
}  // namespace pleach
