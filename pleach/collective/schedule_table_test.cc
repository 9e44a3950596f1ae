#include "pleach/collective/schedule_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;
using support::Move;

ScheduleTable table_of(const Schedule& schedule) {
  return ScheduleTable::build(schedule, Order::build(schedule));
}

std::string names(std::span<const int32_t> ranks) {
  return fmt::format("{{{}}}", fmt::join(ranks, " "));
}

// "0 reduce 3 1{}": step, opcode, first chunk (and how many, of several), parents, children.
std::string text(const ScheduleTable& table, const TableEntry& entry) {
  if (entry.op == TableOp::kNop) {
    return fmt::format("{} nop", entry.step);
  }
  const std::string more = entry.chunk_count == 1 ? "" : fmt::format("+{}", entry.chunk_count - 1);
  return fmt::format("{} {} {}{} {}{}", entry.step, to_text(entry.op), entry.flow(), more,
                     names(table.parents(entry)), names(table.children(entry)));
}

std::vector<std::string> texts(const ScheduleTable& table, std::span<const TableEntry> entries) {
  std::vector<std::string> lines;
  for (const TableEntry& entry : entries) {
    lines.push_back(text(table, entry));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(ScheduleTable, HoldsARing) {
  Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  ring.phase_steps = {2, 2};
  const ScheduleTable table = table_of(ring);
  // Chunk c is reduced on its way from rank c + 1 to rank c, and then goes round.
  EXPECT_EQ(texts(table, table.entries(0)), (Lines{"0 reduce 2 {1}{}", "1 reduce 1 {1}{2}",
                                                   "2 gather 0 {}{1}", "3 gather 2 {2}{1}"}));
  EXPECT_EQ(texts(table, table.ends(0, 0)), (Lines{"2 reduce 0 {}{2}"}));
  EXPECT_TRUE(table.ends(0, 1).empty());
}

TEST(ScheduleTable, NamesWhatAPhaseHasReducedWhereItAlsoGathers) {
  const ScheduleTable table =
      table_of(support::ring_schedule(CollectiveKind::kAllReduce, 3));  // one phase
  EXPECT_EQ(texts(table, table.entries(0)), (Lines{"0 reduce 2 {1}{}", "1 reduce 1 {1}{2}",
                                                   "2 gather 0 {2}{1}", "3 gather 2 {2}{1}"}));
  EXPECT_TRUE(table.ends(0, 0).empty());
}

TEST(ScheduleTable, GathersToAllChildrenOfAStepByOneEntry) {
  const ScheduleTable table = table_of(
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 5, .chunk_count = 2},
                    {{0, 2, 0, 3, kCopy, 0},
                     {0, 2, 0, 1, kCopy, 0},
                     {0, 2, 1, 2, kCopy, 2},
                     {0, 1, 3, 4, kCopy, 1},
                     {1, 1, 3, 4, kCopy, 1}}));
  EXPECT_EQ(texts(table, table.entries(0)), (Lines{"0 gather 0+1 {}{1 3}"}));
  EXPECT_EQ(texts(table, table.entries(1)), (Lines{"0 nop", "1 nop", "2 gather 0+1 {0}{2}"}));
  EXPECT_EQ(texts(table, table.entries(2)), Lines{});
  EXPECT_EQ(texts(table, table.entries(3)),
            (Lines{"0 nop", "1 gather 0 {0}{4}", "1 gather 1 {0}{4}"}));
}

TEST(ScheduleTable, ReducesToEachTargetOfAnExchangeByAnEntryOfItsOwn) {
  const ScheduleTable table = table_of(make_schedule(
      {.rank_count = 3},
      {{0, 1, 1, 0}, {0, 1, 1, 2}, {0, 1, 0, 1}, {0, 1, 0, 2}, {0, 1, 2, 0}, {0, 1, 2, 1}}));
  EXPECT_EQ(texts(table, table.entries(1)), (Lines{"0 reduce 0 {0}{}", "0 reduce 0 {2}{}"}));
}

TEST(ScheduleTable, WaitsForAllWhoseChunksAMessageHas) {
  Schedule halving = support::halving_schedule(4);
  halving.phase_steps = {2, 2};
  const ScheduleTable table = table_of(halving);
  EXPECT_EQ(texts(table, table.entries(0)), (Lines{"0 reduce 2+1 {2}{}", "1 reduce 1 {1}{2}",
                                                   "2 gather 0 {}{1}", "3 gather 0+1 {1}{2}"}));
  EXPECT_EQ(texts(table, table.ends(0, 0)), (Lines{"2 reduce 0 {}{1 2}"}));
  const ScheduleTable eight = table_of(support::halving_schedule(8));
  EXPECT_EQ(text(eight, eight.entries(0).back()), "5 gather 0+3 {1 2 4}{4}")
      << "in one phase also for those that chunk 0 has been reduced from";
}

TEST(ScheduleTable, WaitsForTheLastCopyAndWhatIsReducedAfterIt) {
  const std::vector<Move> moves = {{0, 1, 1, 0, kReduce, 0}, {0, 1, 2, 0, kCopy, 1},
                                   {0, 1, 3, 0, kReduce, 2}, {0, 1, 4, 0, kReduce, 2},
                                   {0, 1, 0, 4, kReduce, 3}, {0, 1, 0, 3, kCopy, 3}};
  Schedule schedule = make_schedule({.rank_count = 5}, moves);
  const ScheduleTable table = table_of(schedule);
  EXPECT_EQ(texts(table, table.entries(0)),
            (Lines{"0 nop", "1 nop", "2 nop", "3 reduce 0 {4}{2 3 4}", "3 gather 0 {2 3 4}{3}"}));
  schedule.phase_steps = {2, 0, 2};
  const ScheduleTable later = table_of(schedule);
  EXPECT_EQ(text(later, later.entries(0).back()), "3 gather 0 {3 4}{3}");
  EXPECT_EQ(texts(later, later.ends(0, 0)), (Lines{"2 gather 0 {2}{}"}));
  EXPECT_TRUE(later.ends(0, 1).empty());
}

TEST(ScheduleTable, JoinsNeighboursThatEndAlike) {
  Schedule schedule = make_schedule({.rank_count = 3, .chunk_count = 4}, {{0, 3, 1, 0, kReduce, 0},
                                                                          {2, 1, 2, 0, kReduce, 1},
                                                                          {3, 1, 1, 0, kReduce, 1},
                                                                          {0, 1, 0, 1, kCopy, 2}});
  schedule.phase_steps = {2, 1};
  const ScheduleTable table = table_of(schedule);
  EXPECT_EQ(texts(table, table.ends(0, 0)),
            (Lines{"2 reduce 0+1 {}{1}", "2 reduce 2 {}{1 2}", "2 reduce 3 {}{1}"}));
  EXPECT_EQ(table.commits(table.ends(0, 0)[0]).size(), 2u);
}

TEST(ScheduleTable, SaysWhichBytesAnEntrySends) {
  const Schedule halving = support::halving_schedule(4);
  const ScheduleTable table = table_of(halving);
  const TableEntry& first = table.entries(0).front();  // chunks 2 and 3 of 4
  EXPECT_EQ(interval_of(first, nullptr), (Interval{2, 4}));
  const Placement placement = *Placement::create(halving, 1001);
  EXPECT_EQ(interval_of(first, &placement), (Interval{500, 1001}));
}

TEST(ScheduleTable, HasFieldsAsWideAsTheScheduleNeeds) {
  Schedule halving = support::halving_schedule(4);
  halving.phase_steps = {2, 2};
  const ScheduleTable table = table_of(halving);
  const TableWidths chunks = widths_of(table, nullptr);
  EXPECT_EQ(chunks.opcode, 2);
  EXPECT_EQ(chunks.flow, 2);      // to 3
  EXPECT_EQ(chunks.parent, 3);    // one of 4 ranks, or none
  EXPECT_EQ(chunks.children, 3);  // no more than one
  EXPECT_EQ(chunks.step, 2);      // to 3
  EXPECT_EQ(chunks.start, 2);     // to 3
  EXPECT_EQ(chunks.size, 2);      // to 2
  EXPECT_EQ(chunks.entry(), 16);
  const Placement placement = *Placement::create(halving, 1024);
  const TableWidths bytes = widths_of(table, &placement);
  EXPECT_EQ(bytes.start, 10);  // to 768
  EXPECT_EQ(bytes.size, 10);   // to 512
  const ScheduleTable star = table_of(
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 4},
                    {{0, 1, 0, 1, kCopy, 0}, {0, 1, 0, 2, kCopy, 0}, {0, 1, 0, 3, kCopy, 0}}));
  EXPECT_EQ(widths_of(star, nullptr).children, 4) << "a bit for each rank, not three of 3 bits";
  EXPECT_EQ(widths_of(star, nullptr).parent, 0) << "never any";
}

}  // namespace
}  // namespace pleach
