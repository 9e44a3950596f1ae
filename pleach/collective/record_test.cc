#include "pleach/collective/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/cursor.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"

namespace pleach {
namespace {

using Kind = RecordEvent::Kind;

// A legal run in random order: records by rank, each event in the record of its slot's rank.
std::vector<Record> random_run(const Order& order, int32_t rank_count, int32_t segment_count,
                               Rng& rng) {
  std::vector<Record> records(at(rank_count));
  Cursor cursor(order, segment_count);
  std::vector<RecordEvent> waiting;  // not yet possible, or possible and not chosen
  for (int32_t segment = 0; segment < segment_count; ++segment) {
    for (int32_t item = 0; item < order.read_count(); ++item) {
      waiting.push_back({Kind::kStartRead, item, segment, 0});
    }
    for (int32_t item = 0; item < order.commit_count(); ++item) {
      waiting.push_back({Kind::kCommit, item, segment, 0});
    }
  }
  std::vector<int32_t> started(at(order.stream_count() * segment_count));
  const auto count_of = [&](int32_t stream, int32_t segment) -> int32_t& {
    return started[at(stream * segment_count + segment)];
  };
  const auto possible = [&](const RecordEvent& event) {
    if (event.kind == Kind::kFinishRead) {
      return true;
    }
    if (event.kind == Kind::kStartRead) {
      return cursor.may_read(order.read(event.item), event.segment);
    }
    const Commit& commit = order.commit(event.item);
    return cursor.may_commit(commit, event.segment) &&
           at(count_of(commit.stream, event.segment)) == order.reads(commit.stream).size();
  };
  constexpr int32_t kMostTries = 1'000'000;
  for (int32_t tries = 0; !waiting.empty(); ++tries) {
    PLEACH_CHECK(tries < kMostTries, "the cursor lets nothing happen");
    const std::size_t choice = rng.below(waiting.size());
    const RecordEvent event = waiting[choice];
    if (!possible(event)) {
      continue;
    }
    std::swap(waiting[choice], waiting.back());
    waiting.pop_back();
    const bool is_commit = event.kind == Kind::kCommit;
    const int32_t slot = is_commit ? order.commit(event.item).slot : order.read(event.item).slot;
    records[at(order.slot(slot).rank)].push_back(event);
    if (event.kind == Kind::kStartRead) {
      ++count_of(order.read(event.item).stream, event.segment);
      waiting.push_back({Kind::kFinishRead, event.item, event.segment, 0});
    } else if (event.kind == Kind::kFinishRead) {
      cursor.finish_read(order.read(event.item), event.segment);
    } else {
      cursor.finish_commit(order.commit(event.item), event.segment);
    }
  }
  return records;
}

TEST(Record, LegalRunsReplay) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    const Schedule schedule = support::random_schedule({}, rng);
    const Order order = Order::build(schedule);
    const int32_t segments = 1 + support::pick(rng, 2);
    const auto records = random_run(order, schedule.rank_count(), segments, rng);
    const Status status = replay(order, records, segments);
    EXPECT_TRUE(status) << "seed " << seed << ": " << status.error().message;
  }
}

// Any event left out or repeated is noticed.
TEST(Record, ChangedRunsDoNotReplay) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    const Schedule schedule = support::random_schedule({}, rng);
    const Order order = Order::build(schedule);
    auto records = random_run(order, schedule.rank_count(), 1, rng);
    Record* record = nullptr;
    while (record == nullptr || record->empty()) {
      record = &records[rng.below(records.size())];
    }
    const auto event = record->begin() + static_cast<std::ptrdiff_t>(rng.below(record->size()));
    if (rng.below(2) == 0) {
      record->erase(event);
    } else {
      record->push_back(*event);
    }
    EXPECT_FALSE(replay(order, records, 1)) << "seed " << seed;
  }
}

// The exchange: read and commit 0 are those of 0 -> 1.
struct BadRow {
  std::string name;
  Record rank_0, rank_1;
  std::string message;
};

class BadRecords : public testing::TestWithParam<BadRow> {};

constexpr RecordEvent kStart0 = {Kind::kStartRead, 0, 0, 0}, kEnd0 = {Kind::kFinishRead, 0, 0, 0};
constexpr RecordEvent kStart1 = {Kind::kStartRead, 1, 0, 0}, kEnd1 = {Kind::kFinishRead, 1, 0, 0};
constexpr RecordEvent kCommit0 = {Kind::kCommit, 0, 0, 0}, kCommit1 = {Kind::kCommit, 1, 0, 0};

TEST_P(BadRecords, AreNamed) {
  const Schedule schedule = support::make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0}});
  const Order order = Order::build(schedule);
  const std::vector<Record> records = {GetParam().rank_0, GetParam().rank_1};
  const Status status = replay(order, records, 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadRecords,
    testing::Values(
        BadRow{
            "commit_before_own_read",
            {kStart0, kCommit1, kEnd0},
            {kStart1, kEnd1, kCommit0},
            "record 0 event 1 (commit 1: chunk 0 at rank 0, step 0, segment 0, translate 0) must "
            "wait for 0 commits and 1 reads of its slot; done are 0 and 0"},
        BadRow{
            "commit_of_nothing",
            {kCommit1, kStart0, kEnd0},
            {kCommit0, kStart1, kEnd1},
            "record 0 event 0 (commit 1: chunk 0 at rank 0, step 0, segment 0, translate 0) comes "
            "before the reads of its stream have started"},
        BadRow{"read_twice",
               {kStart0, kStart0, kEnd0, kCommit1},
               {kStart1, kEnd1, kCommit0},
               "record 0 event 1 (start of read 0: chunk 0 at rank 0, step 0, segment 0, translate "
               "0) happens twice"},
        BadRow{
            "end_before_start",
            {kEnd0, kStart0, kCommit1},
            {kStart1, kEnd1, kCommit0},
            "record 0 event 0 (end of read 0: chunk 0 at rank 0, step 0, segment 0, translate 0) "
            "comes before its start"},
        BadRow{"commit_missing",
               {kStart0, kEnd0, kCommit1},
               {kStart1, kEnd1},
               "commit 0: chunk 0 at rank 1, step 0, segment 0, translate 0 is missing"},
        BadRow{"nothing",
               {},
               {},
               "end of read 0: chunk 0 at rank 0, step 0, segment 0, translate 0 is missing"},
        BadRow{"no_such_read",
               {{Kind::kStartRead, 2, 0, 0}},
               {},
               "record 0 event 0: no such event: start of read 2 of 2, segment 0 of 1, translate 0 "
               "of 1"},
        BadRow{"no_such_segment",
               {{Kind::kCommit, 0, 1, 0}},
               {},
               "record 0 event 0: no such event: commit 0 of 2, segment 1 of 1, translate 0 of 1"}),
    [](const testing::TestParamInfo<BadRow>& row) { return row.param.name; });

TEST(Record, ReadAfterALaterCommitIsNamed) {
  const Schedule schedule =
      support::make_schedule({}, {{0, 1, 0, 1}, {0, 1, 1, 0, support::kCopy, 1}});
  const Order order = Order::build(schedule);
  const std::vector<Record> records = {{kStart0, kEnd0, kCommit1}, {kStart1, kEnd1, kCommit0}};
  const Status status = replay(order, records, 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "record 1 event 0 (start of read 1: chunk 0 at rank 1, step 1, segment 0, translate 0) "
            "must wait for 1 commits of its slot; done are 0");
}

}  // namespace
}  // namespace pleach
