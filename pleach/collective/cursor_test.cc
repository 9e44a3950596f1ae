// Order and Cursor against the Oracle's statement of the rules, in random legal walks.
#include "pleach/collective/cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/order.h"
#include "tests/support/counterexamples.h"
#include "tests/support/oracle.h"
#include "tests/support/random_schedules.h"

namespace pleach {
namespace {

using support::OracleEvents;

// The Order's number of each of the Oracle's messages.
std::vector<int32_t> match_streams(const OracleEvents& oracle, const Order& order) {
  std::vector<int32_t> streams;
  for (const OracleEvents::Message& message : oracle.messages()) {
    for (int32_t stream = 0; stream < order.stream_count(); ++stream) {
      const Stream& what = order.stream(stream);
      if (what.step == message.step && what.first_chunk == message.first_chunk &&
          what.chunk_count == message.chunk_count && what.op == message.op &&
          std::ranges::equal(order.sources(stream), message.sources) &&
          std::ranges::equal(order.targets(stream), message.targets)) {
        streams.push_back(stream);
      }
    }
  }
  return streams;
}

// Walks a schedule at random, by the Oracle's rules, with the Cursor beside it.
class Walk {
 public:
  Walk(const Schedule& schedule, int32_t segment_count, int32_t translate)
      // The Cursor knows no arrivals, nor so which of a step are there.
      : oracle_(schedule, {.segment_count = segment_count, .folds_early = true}),
        order_(Order::build(schedule)),
        cursor_(order_, segment_count, translate + 1),
        segment_count_(segment_count),
        translate_(translate),
        streams_(match_streams(oracle_, order_)) {}

  // Adds the events that happened to `count`.
  void run(Rng& rng, int64_t& count) {
    ASSERT_TRUE(oracle_.fits());
    ASSERT_EQ(streams_.size(), oracle_.messages().size());
    ASSERT_EQ(at(order_.stream_count()), oracle_.messages().size());
    while (true) {
      std::vector<Step> steps;
      compare(steps);
      if (testing::Test::HasFatalFailure() || steps.empty()) {
        break;
      }
      take(steps[rng.below(steps.size())]);
      ++count;
    }
    for (std::size_t message = 0; message < streams_.size(); ++message) {
      const int32_t last = oracle_.read_event(static_cast<int32_t>(message), segment_count_ - 1) +
                           oracle_.messages()[message].commit_count();
      for (int32_t event = oracle_.messages()[message].first_event; event <= last; ++event) {
        ASSERT_TRUE(done_[at(event)]) << "the walk ended early";
      }
    }
  }

 private:
  // An enabled event; `commit` is the index of the Order's, or -1 for a read.
  struct Step {
    int32_t message = 0;
    int32_t segment = 0;
    int32_t commit = -1;
    int32_t event = 0;
  };

  // Both sides must say the same of every event that has not happened.
  void compare(std::vector<Step>& steps) const {
    for (int32_t message = 0; message < count_of(streams_); ++message) {
      for (int32_t segment = 0; segment < segment_count_; ++segment) {
        const int32_t read = oracle_.read_event(message, segment);
        if (done_[at(read)]) {
          compare_commits(message, segment, steps);
        } else {
          compare_reads(message, segment, steps);
        }
      }
    }
  }

  void compare_reads(int32_t message, int32_t segment, std::vector<Step>& steps) const {
    const int32_t stream = streams_[at(message)];
    const OracleEvents::Message& what = oracle_.messages()[at(message)];
    bool all = true;
    for (std::size_t source = 0; source < what.sources.size(); ++source) {
      for (int32_t chunk = 0; chunk < what.chunk_count; ++chunk) {
        const Read& read = order_.reads(stream)[source * at(what.chunk_count) + at(chunk)];
        const bool may = oracle_.may_read(done_, message, source, chunk, segment);
        ASSERT_EQ(cursor_.may_read(read, segment, translate_), may);
        ASSERT_EQ(order_.slot(read.slot).rank, what.sources[source]);
        ASSERT_EQ(order_.slot(read.slot).chunk, what.first_chunk + chunk);
        all = all && may;
      }
    }
    ASSERT_EQ(cursor_.may_start(stream, segment, translate_), all);
    if (all) {
      steps.push_back({message, segment, -1, oracle_.read_event(message, segment)});
    }
  }

  void compare_commits(int32_t message, int32_t segment, std::vector<Step>& steps) const {
    const int32_t stream = streams_[at(message)];
    const OracleEvents::Message& what = oracle_.messages()[at(message)];
    for (std::size_t target = 0; target < what.targets.size(); ++target) {
      for (int32_t chunk = 0; chunk < what.chunk_count; ++chunk) {
        const int32_t event = oracle_.commit_event(message, target, chunk, segment);
        if (done_[at(event)]) {
          continue;
        }
        const int32_t index =
            order_.first_commit(stream) + static_cast<int32_t>(target) * what.chunk_count + chunk;
        const Commit& commit = order_.commit(index);
        const bool may = oracle_.may_commit(done_, message, target, chunk, segment);
        ASSERT_EQ(cursor_.may_commit(commit, segment, translate_), may);
        ASSERT_EQ(order_.slot(commit.slot).rank, what.targets[target]);
        ASSERT_EQ(order_.slot(commit.slot).chunk, what.first_chunk + chunk);
        if (may) {
          steps.push_back({message, segment, index, event});
        }
      }
    }
  }

  void take(const Step& step) {
    done_.set(at(step.event));
    if (step.commit >= 0) {
      cursor_.finish_commit(order_.commit(step.commit), step.segment, translate_);
      return;
    }
    for (const Read& read : order_.reads(streams_[at(step.message)])) {
      cursor_.finish_read(read, step.segment, translate_);
    }
  }

  OracleEvents oracle_;
  Order order_;
  Cursor cursor_;
  int32_t segment_count_;
  int32_t translate_;
  std::vector<int32_t> streams_;
  OracleEvents::Done done_;
};

TEST(Cursor, AgreesWithTheRulesInRandomWalks) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < 20'000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    const Schedule schedule = support::random_schedule({.most_moves = 14}, rng);
    Walk(schedule, 1 + support::pick(rng, 3), support::pick(rng, 2)).run(rng, count);
  }
  EXPECT_GT(count, 20'000 * 10);
}

TEST(Cursor, AgreesWithTheRulesOnTheCounterexamples) {
  int64_t count = 0;
  for (const support::Counterexample& row : support::counterexamples()) {
    if (row.expectation == support::Expectation::kMalformed) {
      continue;
    }
    for (uint64_t seed = 0; seed < 20 && !HasFatalFailure(); ++seed) {
      SCOPED_TRACE(row.name + ", seed " + std::to_string(seed));
      Rng rng(seed);
      Walk(row.schedule, row.segment_count, 0).run(rng, count);
    }
  }
  EXPECT_GT(count, 1'000);
}

// All ranks reduce into a switch, which sends the sum to some of them: one stream per step.
TEST(Cursor, AgreesWithTheRulesOnStreamsThroughASwitch) {
  int64_t count = 0;
  for (uint64_t seed = 0; seed < 3'000 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Schedule schedule = support::random_schedule({.most_moves = 4}, rng);
    const NodeId middle = {schedule.rank_count()};
    const int32_t first_step = schedule.step_count();
    const int32_t streams = 1 + support::pick(rng, 3);
    for (int32_t stream = 0; stream < streams; ++stream) {
      const int32_t chunk = support::pick(rng, schedule.chunks.count());
      const auto excused = at(support::pick(rng, schedule.rank_count()));
      for (std::size_t rank = 0; rank < schedule.participants.size(); ++rank) {
        const NodeId node = schedule.participants[rank];
        Transfer hop;
        hop.first_chunk = chunk;
        hop.step = first_step + stream;
        if (rank != excused) {
          hop.source = node;
          hop.target = middle;
          hop.op = TransferOp::kReduce;
          schedule.transfers.push_back(hop);
        }
        hop.source = middle;
        hop.target = node;
        hop.op = TransferOp::kCopy;
        schedule.transfers.push_back(hop);
      }
    }
    schedule.phase_steps = {first_step + streams};
    sort_transfers(schedule);
    ASSERT_EQ(check_form(schedule, nullptr), std::vector<std::string>());
    Walk(schedule, 1 + support::pick(rng, 2), 0).run(rng, count);
  }
  EXPECT_GT(count, 3'000 * 10);
}

TEST(Order, NumbersSlotsByChunkAndRank) {
  const Schedule schedule = support::make_schedule({.rank_count = 3, .chunk_count = 4},
                                                   {{1, 2, 0, 2}, {2, 1, 2, 1, support::kCopy, 1}});
  const Order order = Order::build(schedule);
  std::vector<std::pair<int32_t, int32_t>> slots;  // chunk and rank
  for (int32_t slot = 0; slot < order.slot_count(); ++slot) {
    slots.emplace_back(order.slot(slot).chunk, order.slot(slot).rank);
  }
  using Slots = std::vector<std::pair<int32_t, int32_t>>;
  ASSERT_EQ(slots, (Slots{{1, 0}, {1, 2}, {2, 0}, {2, 1}, {2, 2}}));
  const int32_t slot = 4;
  ASSERT_EQ(order.slot_reads(slot).size(), 1U);
  ASSERT_EQ(order.slot_commits(slot).size(), 1U);
  EXPECT_EQ(order.slot_reads(slot)[0].after_commits, 1);
  EXPECT_EQ(order.slot_reads(slot)[0].stream, 1);
}

}  // namespace
}  // namespace pleach
