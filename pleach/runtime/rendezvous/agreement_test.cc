#include "pleach/runtime/rendezvous/agreement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/stores.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::with_stores;

TEST(Agreement, NobodyLeavesABarrierBeforeAllHaveEntered) {
  std::atomic<int> entered = 0;
  with_stores(3, [&entered](Store& store, Rank rank) {
    for (int round = 1; round <= 20; ++round) {
      ++entered;
      const Status status = barrier({store, rank, 3, seconds(10)}, "round");
      ASSERT_TRUE(status.has_value()) << status.error().message;
      EXPECT_GE(entered, 3 * round);
      ASSERT_TRUE(barrier({store, rank, 3, seconds(10)}, "again").has_value());
    }
    if (barrier({store, rank, 3, seconds(10)}, "reset") && rank.value == 0) {
      entered = 0;
    }
    EXPECT_TRUE(barrier({store, rank, 3, seconds(10)}, "end").has_value());
  });
}

TEST(Agreement, BarrierNamesAllWhoDidNotCome) {
  with_stores(4, [](Store& store, Rank rank) {
    if (rank.value % 2 == 1) {
      EXPECT_FALSE(store.get("nothing", seconds(20)).has_value());
      return;
    }
    if (rank.value == 2) {
      ASSERT_TRUE(store.get("half/here/0", seconds(20)).has_value());
    }
    const Duration deadline = rank.value == 2 ? milliseconds(150) : milliseconds(20'000);
    const Status status = barrier({store, rank, 4, deadline}, "half");
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().message,
              rank.value == 2 ? "ranks 1, 3 did not come within 0.15 s" : "that was all");
    store.fail({rank, "that was all"});
  });
}

TEST(Agreement, GatherGivesRankZeroTheValuesOfAll) {
  with_stores(4, [](Store& store, Rank rank) {
    const GroupOfRanks group{store, rank, 4, seconds(10)};
    for (int round = 0; round < 3; ++round) {
      if (rank.value == 2) {
        std::this_thread::sleep_for(milliseconds(20));  // late, but in time
      }
      const std::string name = "values/" + std::to_string(round);
      const auto values = gather(group, name, "of " + std::to_string(rank.value));
      ASSERT_TRUE(values.has_value()) << values.error().message;
      using Values = std::vector<std::string>;
      EXPECT_EQ(*values, rank.value == 0 ? Values({"of 0", "of 1", "of 2", "of 3"}) : Values());
      if (rank.value == 0) {
        EXPECT_FALSE(store.get(name + "/here/1", Duration(0)).has_value()) << "a key was left";
      }
    }
    EXPECT_TRUE(barrier(group, "end").has_value());
  });
}

TEST(Agreement, BroadcastGivesAllWhatRankZeroProduces) {
  const std::vector<Result<std::string>> produced = {
      std::string(),
      std::string("one"),
      std::string("=!"),
      std::string(3'000'000, 'x'),
      Error{ErrorCode::kInfeasible, "there is no way"},
      Error{ErrorCode::kIo, ""}};
  with_stores(3, [&](Store& store, Rank rank) {
    const GroupOfRanks group{store, rank, 3, seconds(10)};
    for (std::size_t i = 0; i < produced.size(); ++i) {
      const std::string name = "news/" + std::to_string(i);
      int calls = 0;
      const auto got = broadcast(group, name, [&] {
        ++calls;
        return produced[i];
      });
      EXPECT_EQ(calls, rank.value == 0 ? 1 : 0);
      ASSERT_TRUE(got.has_value()) << got.error().message;
      ASSERT_EQ(got->has_value(), produced[i].has_value()) << i;
      if (produced[i]) {
        EXPECT_EQ(**got, *produced[i]);
      } else {
        EXPECT_EQ(got->error().code, produced[i].error().code);
        EXPECT_EQ(got->error().message, produced[i].error().message);
      }
      EXPECT_TRUE(barrier(group, "after/" + std::to_string(i)).has_value());
      EXPECT_FALSE(store.get(name + "/count", Duration(0)).has_value()) << "a key was left";
    }
  });
}

TEST(Agreement, AgreeNamesTheLowestRankThatDiffersOrRefuses) {
  const Error refusal{ErrorCode::kUnsupported, "I cannot"};
  struct Case {
    std::string name;
    std::vector<Result<std::string>> said;  // by rank
    ErrorCode code;
    std::string message;  // empty: they agree
  };
  const std::vector<Case> cases = {
      {"the same",
       {std::string("a=1 b=2"), std::string("a=1 b=2"), std::string("a=1 b=2")},
       {},
       ""},
      {"nothing", {std::string(), std::string(), std::string()}, {}, ""},
      {"one word",
       {std::string("a=1 b=2 c=3"), std::string("a=1 b=2 c=3"), std::string("a=1 b=4 c=5")},
       ErrorCode::kInvalidArgument,
       "rank 2 has b=4, rank 0 b=2"},
      {"two ranks",
       {std::string("a"), std::string("b"), std::string("c")},
       ErrorCode::kInvalidArgument,
       "rank 1 has b, rank 0 a"},
      {"fewer words",
       {std::string("a b"), std::string("a"), std::string("a b")},
       ErrorCode::kInvalidArgument,
       "rank 1 has nothing, rank 0 b"},
      {"more words",
       {std::string("a"), std::string("a"), std::string("a b")},
       ErrorCode::kInvalidArgument,
       "rank 2 has b, rank 0 nothing"},
      {"rank 0 refuses", {refusal, std::string("a"), std::string("b")}, refusal.code, "I cannot"},
      {"another refuses", {std::string("a"), std::string("a"), refusal}, refusal.code, "I cannot"},
      {"all refuse",
       {Error{ErrorCode::kInvalidArgument, "nor I"}, refusal, refusal},
       ErrorCode::kInvalidArgument,
       "nor I"},
      {"differs before one refuses",
       {std::string("a"), std::string("b"), refusal},
       ErrorCode::kInvalidArgument,
       "rank 1 has b, rank 0 a"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    with_stores(3, [&](Store& store, Rank rank) {
      const auto verdict = agree({store, rank, 3, seconds(10)}, "words", row.said[rank.index()],
                                 "rank {} has {}, rank 0 {}");
      ASSERT_TRUE(verdict.has_value()) << verdict.error().message;
      ASSERT_EQ(verdict->has_value(), row.message.empty());
      if (!*verdict) {
        EXPECT_EQ(verdict->error().code, row.code);
        EXPECT_EQ(verdict->error().message, row.message);
      }
      EXPECT_TRUE(barrier({store, rank, 3, seconds(10)}, "end").has_value());
    });
  }
}

// Rank 1 stays away. Whoever gives up first, however late the others are: it names rank 1 alone
// once they have come.
TEST(Agreement, WhoDoesNotComeIsNamedWhoeverGivesUpFirst) {
  struct Case {
    std::string name;
    std::function<Status(const GroupOfRanks&)> settle;
    std::string here;  // under which key a rank says that it has come to where it waits
    std::vector<int32_t> first = {0, 2};  // who gives up first
  };
  const auto forget = [](const auto& result) { return result ? ok() : Status(result.error()); };
  const auto produce = [] { return Result<std::string>(std::string("value")); };
  const std::vector<Case> cases = {
      {"barrier", [](const GroupOfRanks& group) { return barrier(group, "b"); }, "b/here/"},
      {"gather", [&](const GroupOfRanks& group) { return forget(gather(group, "g", "value")); },
       "g/here/"},
      {"broadcast",
       [&](const GroupOfRanks& group) { return forget(broadcast(group, "c", produce)); },
       "c.read/here/",
       {2}},
      {"agree",
       [&](const GroupOfRanks& group) {
         return forget(agree(group, "a", std::string("word"), "{} {} {}"));
       },
       "a/here/"},
  };
  for (const Case& row : cases) {
    for (const int32_t first : row.first) {
      SCOPED_TRACE(row.name + ", " + std::to_string(first));
      with_stores(3, [&](Store& store, Rank rank) {
        if (rank.value == first) {
          const std::string other = row.here + std::to_string(2 - first);
          ASSERT_TRUE(store.get(other, seconds(20)));
          const Status status = row.settle({store, rank, 3, milliseconds(200)});
          ASSERT_FALSE(status);
          EXPECT_EQ(status.error().code, ErrorCode::kTimeout);
          EXPECT_EQ(status.error().message, "rank 1 did not come within 0.2 s");
          store.fail({rank, "that was the first"});
        } else {
          const Status status = rank.value == 1 ? forget(store.get("nothing", seconds(20)))
                                                : row.settle({store, rank, 3, seconds(20)});
          ASSERT_FALSE(status);
          EXPECT_EQ(status.error().message, "that was the first");
        }
      });
    }
  }
}

// In the ranks' numbers in the job.
TEST(Agreement, AGroupNamesWhomItMissesNotItsFirst) {
  with_stores(3, [](Store& store, Rank rank) {
    const std::vector<Rank> job_ranks = {Rank{7}, Rank{4}, Rank{5}};
    GroupOfRanks group{store, rank, 3, seconds(20), job_ranks};
    if (rank.value == 1) {
      ASSERT_TRUE(store.get("s/here/0", seconds(20)));
      group.deadline = milliseconds(100);
    }
    if (rank.value == 2) {
      EXPECT_FALSE(store.get("nothing", seconds(20)));
      return;
    }
    const auto all = settle(group, "s", "word", [](const auto&) { return std::string("never"); });
    ASSERT_FALSE(all);
    EXPECT_EQ(all.error().message,
              rank.value == 1 ? "rank 5 did not come within 0.1 s" : "rank 4 has left");
    store.fail({rank, "rank 4 has left"});
  });
}

// All have come: who does not go on is named then, not who is late.
TEST(Agreement, WhoCameAndDoesNotGoOnIsNamedSo) {
  with_stores(3, [](Store& store, Rank rank) {
    const auto never = [&]() -> Result<std::string> {
      EXPECT_FALSE(store.get("nothing", seconds(20)));
      return std::string("late");
    };
    GroupOfRanks group{store, rank, 3, seconds(20)};
    if (rank.value == 1) {
      ASSERT_TRUE(store.get("b/here/0", seconds(20)));
      group.deadline = milliseconds(100);
    }
    const auto got = broadcast(group, "b", never);
    ASSERT_FALSE(got);
    if (rank.value == 1) {
      EXPECT_EQ(got.error().message, "rank 0 came, and did not go on within 0.1 s");
      store.fail({rank, "rank 1 has left"});
    }
  });
}

// One deadline for all: whoever comes late leaves no more time to the next.
TEST(Agreement, GatherWaitsForAllTogetherNoLongerThanTheDeadline) {
  with_stores(3, [](Store& store, Rank rank) {
    if (rank.value == 0) {
      const TimePoint start = SteadyClock().now();
      const auto values = gather({store, rank, 3, seconds(8)}, "g", "0");
      ASSERT_FALSE(values.has_value());
      EXPECT_EQ(values.error().message, "rank 2 did not come within 8 s");
      EXPECT_LT(SteadyClock().now() - start, seconds(11));
      store.fail({rank, "rank 2 did not come"});
    } else if (rank.value == 1) {
      ASSERT_TRUE(store.get("g/here/0", seconds(20)));
      std::this_thread::sleep_for(seconds(4));
      EXPECT_FALSE(gather({store, rank, 3, seconds(20)}, "g", "1").has_value());
    } else {
      EXPECT_FALSE(store.get("nothing", seconds(20)));
    }
  });
}

TEST(Agreement, AFailedJobEndsEveryWait) {
  with_stores(3, [](Store& store, Rank rank) {
    const GroupOfRanks group{store, rank, 3, seconds(10)};
    if (rank.value == 2) {
      store.fail({rank, "rank 2 caught fire"});
      return;
    }
    const auto verdict = agree(group, "a", std::string("word"), "{} {} {}");
    ASSERT_FALSE(verdict.has_value());
    EXPECT_EQ(verdict.error().code, ErrorCode::kPeerLost);
    EXPECT_EQ(verdict.error().message, "rank 2 caught fire");
  });
}

}  // namespace
}  // namespace pleach
