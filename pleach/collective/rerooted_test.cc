#include "pleach/collective/rerooted.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/collective/verify.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

TEST(Rerooted, IsCorrectForEveryRoot) {
  Rng rng(5);
  for (const Kind collective : {Kind::kBroadcast, Kind::kReduce}) {
    for (const int32_t ranks : {2, 3, 5, 8}) {
      const Schedule schedule = support::random_tree_schedule(collective, ranks, 2, rng);
      for (int32_t root = 0; root < ranks; ++root) {
        SCOPED_TRACE(std::string(to_text(collective)) + " to root " + std::to_string(root));
        const Result<Schedule> other = rerooted(schedule, Rank{root});
        ASSERT_TRUE(other) << other.error().message;
        EXPECT_EQ(other->root, Rank{root});
        EXPECT_TRUE(verify(*other, nullptr).correct);
        const Result<Schedule> back = rerooted(*other, schedule.root);
        ASSERT_TRUE(back);
        EXPECT_EQ(back->participants, schedule.participants);
        EXPECT_EQ(back->transfers, schedule.transfers);
      }
    }
  }
}

TEST(Rerooted, RefusesWhatHasNoSuchRoot) {
  Rng rng(5);
  const Schedule broadcast = support::random_tree_schedule(Kind::kBroadcast, 3, 1, rng);
  Schedule wrong = broadcast;
  wrong.transfers.pop_back();
  const struct {
    Schedule schedule;
    int32_t root;
    std::string message;
  } cases[] = {
      {broadcast, 3, "root 3: ranks are 0 to 2"},
      {broadcast, -1, "root -1: ranks are 0 to 2"},
      {support::ring_schedule(Kind::kAllReduce, 3), 1, "all_reduce has no root"},
      {wrong, 1, "chunk 0"},
  };
  for (const auto& [schedule, root, message] : cases) {
    const Result<Schedule> refused = rerooted(schedule, Rank{root});
    ASSERT_FALSE(refused) << message;
    EXPECT_NE(refused.error().message.find(message), std::string::npos) << refused.error().message;
  }
}

}  // namespace
}  // namespace pleach
