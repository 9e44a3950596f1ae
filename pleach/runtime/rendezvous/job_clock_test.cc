#include "pleach/runtime/rendezvous/job_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace pleach {
namespace {

using std::chrono::milliseconds;

TEST(JobClockTest, IsTheSteadyClockWhileItIsBeaten) {
  JobClock clock;
  for (int i = 0; i < 20; ++i) {
    clock.beat(std::chrono::seconds(10));
    std::this_thread::sleep_for(milliseconds(1));
    const TimePoint before = SteadyClock().now();
    const TimePoint shown = clock.now();
    EXPECT_GE(shown, before);
    EXPECT_LE(shown, SteadyClock().now());
  }
}

TEST(JobClockTest, StandsStillBeyondItsReachAndGoesOnFromThere) {
  JobClock clock;
  clock.beat(milliseconds(5));
  const TimePoint start = clock.now();
  std::this_thread::sleep_for(milliseconds(60));  // as if it were stopped
  EXPECT_LE(clock.now() - start, milliseconds(5));
  const TimePoint stopped = clock.now();
  clock.beat(milliseconds(20));
  EXPECT_GE(clock.now(), stopped);
  EXPECT_LE(clock.now(), stopped + milliseconds(20));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(clock.now(), stopped + milliseconds(20));
}

TEST(JobClockTest, RunsOnWhenNobodyBeatsItAnyMore) {
  JobClock clock;
  clock.beat(milliseconds(5));
  std::this_thread::sleep_for(milliseconds(40));
  clock.run_free();
  const TimePoint start = clock.now();
  std::this_thread::sleep_for(milliseconds(40));
  EXPECT_GE(clock.now() - start, milliseconds(40));
  EXPECT_LT(clock.now(), SteadyClock().now() - milliseconds(20));  // it does not catch up
}

}  // namespace
}  // namespace pleach
