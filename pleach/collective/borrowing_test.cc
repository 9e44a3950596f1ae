#include "pleach/collective/borrowing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"
#include "tests/support/oracle.h"
#include "tests/support/random_schedules.h"
#include "tests/support/random_symmetric.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::Oracle;
using support::OracleRules;
using support::OracleVerdict;

constexpr int64_t kStateLimit = 100'000;

// By transfer, of schedules without switches.
std::vector<bool> marks(const Schedule& schedule) {
  const Order order = Order::build(schedule);
  const std::vector<bool> found = find_borrowable(order);
  std::vector<bool> marked(schedule.transfers.size());
  for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
    marked[at(order.transfers(stream).front())] = found[at(stream)];
  }
  return marked;
}

// Whether the marked messages of each step form no cycle in any chunk, stated afresh: by
// reachability.
bool are_acyclic(const Schedule& schedule, const std::vector<bool>& marked) {
  const auto share_chunk = [](const Transfer& left, const Transfer& right, int32_t chunk) {
    const auto has = [&](const Transfer& one) {
      return chunk >= one.first_chunk && chunk < one.first_chunk + one.chunk_count;
    };
    return left.step == right.step && has(left) && has(right);
  };
  const std::vector<Transfer>& all = schedule.transfers;
  for (std::size_t first = 0; first < all.size(); ++first) {
    for (int32_t chunk = all[first].first_chunk;
         chunk < all[first].first_chunk + all[first].chunk_count && marked[first]; ++chunk) {
      std::vector<NodeId> reached = {all[first].target};
      for (std::size_t i = 0; i < reached.size(); ++i) {
        if (reached[i] == all[first].source) {
          return false;
        }
        for (std::size_t next = 0; next < all.size(); ++next) {
          if (marked[next] && share_chunk(all[first], all[next], chunk) &&
              all[next].source == reached[i] &&
              std::ranges::find(reached, all[next].target) == reached.end()) {
            reached.push_back(all[next].target);
          }
        }
      }
    }
  }
  return true;
}

TEST(Borrowing, TakesAllWhereNoChunkGoesRoundInAStep) {
  EXPECT_EQ(marks(make_schedule({.chunk_count = 2}, {{0, 1, 0, 1}, {1, 1, 1, 0}})),
            std::vector({true, true}));
  EXPECT_EQ(marks(make_schedule({.rank_count = 3}, {{0, 1, 0, 1}, {0, 1, 1, 2}})),
            std::vector({true, true}));
  // Back, but a step later.
  EXPECT_EQ(marks(make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0, kCopy, 1}})),
            std::vector({true, true}));
}

TEST(Borrowing, CutsCycles) {
  EXPECT_EQ(marks(make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}})), std::vector({true, false}));
  EXPECT_EQ(marks(make_schedule({.rank_count = 3}, {{0, 1, 0, 1}, {0, 1, 1, 2}, {0, 1, 2, 0}})),
            std::vector({true, true, false}));
  // In one of its chunks.
  EXPECT_EQ(marks(make_schedule({.chunk_count = 3}, {{0, 2, 0, 1}, {1, 2, 1, 0}})),
            std::vector({true, false}));
}

TEST(Borrowing, LeavesSymmetricSchedulesTheSameForAllRanks) {
  EXPECT_EQ(marks(support::ring_schedule(CollectiveKind::kAllReduce, 4)),
            std::vector(marks(support::ring_schedule(CollectiveKind::kAllReduce, 4)).size(), true));
}

TEST(Borrowing, MarksWhatFormsNoCycle) {
  for (int32_t seed = 0; seed < support::repeated(5'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    const Schedule schedule =
        support::random_schedule({.most_ranks = 5, .most_steps = 2, .most_moves = 14}, rng);
    const std::vector<bool> found = marks(schedule);
    ASSERT_EQ(found.size(), schedule.transfers.size());
    ASSERT_TRUE(are_acyclic(schedule, found));
    if (are_acyclic(schedule, std::vector(found.size(), true))) {
      ASSERT_EQ(found, std::vector(found.size(), true));
    }
  }
}

// All markings of small schedules, with one place and two, in every interleaving: no cycle is never
// stuck and changes no bit; a cycle always is, some time.
TEST(Borrowing, RuleIsExact) {
  int64_t acyclic = 0;
  int64_t cyclic = 0;
  for (int32_t seed = 0; seed < support::repeated(500) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(static_cast<uint64_t>(seed));
    Schedule schedule =
        support::random_schedule({.most_ranks = 3, .most_steps = 2, .most_moves = 5}, rng);
    OracleRules rules{.segment_count = 1 + support::pick(rng, 2),
                      .landing_places = 1 + support::pick(rng, 2),
                      .scratch = OracleRules::Scratch::kByPeriod};
    const OracleVerdict copied = Oracle(schedule, rules).explore(kStateLimit, false);
    if (!copied.decided || copied.empty_slot) {
      continue;
    }
    ASSERT_FALSE(copied.stuck);
    const std::size_t count = schedule.transfers.size();
    for (uint32_t bits = 1; bits < uint32_t{1} << count; ++bits) {
      rules.borrowed.assign(count, false);
      for (std::size_t message = 0; message < count; ++message) {
        rules.borrowed[message] = (bits >> message & 1U) != 0;
      }
      const bool may = are_acyclic(schedule, rules.borrowed);
      const OracleVerdict verdict = Oracle(schedule, rules).explore(kStateLimit, false);
      if (!verdict.decided) {
        continue;
      }
      ASSERT_EQ(verdict.stuck, !may) << "marking " << bits;
      if (may) {
        ASSERT_EQ(verdict.results, copied.results);
      }
      ++(may ? acyclic : cyclic);
    }
  }
  EXPECT_GT(acyclic, 1'000);
  EXPECT_GT(cyclic, 20);
}

// Were a borrowed read over with its message, the rule would not do: copied messages hold places.
TEST(Borrowing, ReadsAreOverByChunk) {
  const Schedule schedule =
      make_schedule({.chunk_count = 2}, {{0, 1, 0, 1}, {1, 1, 0, 1}, {0, 2, 1, 0}});
  OracleRules rules{.landing_places = 1};
  for (const Transfer& transfer : schedule.transfers) {
    rules.borrowed.push_back(transfer.chunk_count == 2);
  }
  ASSERT_TRUE(are_acyclic(schedule, rules.borrowed));
  EXPECT_FALSE(Oracle(schedule, rules).explore(kStateLimit, false).stuck);
  rules.borrows_whole = true;
  EXPECT_TRUE(Oracle(schedule, rules).explore(kStateLimit, false).stuck);
}

}  // namespace
}  // namespace pleach
