#include "pleach/runtime/barrier.h"

#include <gtest/gtest.h>

#include "pleach/collective/verify.h"

namespace pleach {
namespace {

TEST(BarrierTest, TheScheduleIsACorrectAllReduceOfAnyNumberOfRanks) {
  for (int32_t ranks = 1; ranks <= 70; ++ranks) {
    const Schedule schedule = barrier_schedule(ranks);
    const Verification proof = verify(schedule, nullptr);
    EXPECT_TRUE(proof.correct) << ranks << ": "
                               << (proof.violations.empty() ? "" : proof.violations.front());
    EXPECT_EQ(schedule.transfers.size(), 2 * (static_cast<std::size_t>(ranks) - 1));
  }
}

}  // namespace
}  // namespace pleach
