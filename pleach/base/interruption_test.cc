#include "pleach/base/interruption.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "pleach/base/interruptible_sort.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Interruption, WithoutOneNothingEnds) {
  EXPECT_EQ(Interruption::present(), nullptr);
  EXPECT_FALSE(is_interrupted());
  EXPECT_NO_THROW(check_interruption());
  EXPECT_NO_THROW(check_interruption_now());
}

TEST(Interruption, EndsALoopSoonAfterItIsToldTo) {
  const auto told = steady_clock::now() + milliseconds(100);
  int asked = 0;
  const Interruption interruption([&] {
    ++asked;
    return steady_clock::now() >= told;
  });
  EXPECT_THROW(
      while (true) { check_interruption(); }, Interrupted);
  EXPECT_GE(steady_clock::now(), told);
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 3) << "once in an interval";
  EXPECT_TRUE(is_interrupted()) << "what has been told stays";
  EXPECT_TRUE(interruption.has_ended());
}

TEST(Interruption, LooksAtTheClockOftenEnoughForStepsOfAMillisecond) {
  const auto start = steady_clock::now();
  const Interruption interruption([] { return true; });
  int steps = 0;
  const auto step = [&] {
    std::this_thread::sleep_for(milliseconds(1));
    ++steps;
    check_interruption();
  };
  EXPECT_THROW(
      while (steady_clock::now() < start + std::chrono::seconds(10)) { step(); }, Interrupted);
  EXPECT_LE(steps, 129);
}

TEST(Interruption, TheInnermostCountsAndNothingIsAskedInTheAnswer) {
  int outer_asked = 0;
  const Interruption outer([&] {
    ++outer_asked;
    return true;
  });
  {
    Interruption inner([] { return Interruption::present() != nullptr; });
    const auto end = steady_clock::now() + 2 * kInterruptionInterval;
    while (steady_clock::now() < end) {
      EXPECT_FALSE(is_interrupted());
    }
    inner.interrupt();
    EXPECT_TRUE(is_interrupted());
  }
  EXPECT_EQ(outer_asked, 0);
  EXPECT_EQ(Interruption::present(), &outer);
}

TEST(InterruptibleSort, SortsAsTheLibraryDoes) {
  Rng rng(1);
  constexpr std::size_t kBlock = std::size_t{1} << 18;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, kBlock,
                                  kBlock + 1, 2 * kBlock - 1, 3 * kBlock + 7, 5 * kBlock}) {
    std::vector<uint64_t> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(rng.below(count));
    }
    std::vector<uint64_t> sorted = values;
    std::ranges::sort(sorted);
    sort_interruptibly(values);
    EXPECT_EQ(values, sorted) << count;
    sort_interruptibly(values, std::greater<>());
    std::ranges::reverse(sorted);
    EXPECT_EQ(values, sorted) << count << ", descending";
  }
}

TEST(InterruptibleSort, Ends) {
  std::vector<uint64_t> values(std::size_t{1} << 22);
  Rng rng(1);
  std::ranges::generate(values, [&] { return rng.next(); });
  const Interruption interruption([] { return true; });
  std::this_thread::sleep_for(kInterruptionInterval);
  const auto start = steady_clock::now();
  EXPECT_THROW(sort_interruptibly(values), Interrupted);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace pleach
