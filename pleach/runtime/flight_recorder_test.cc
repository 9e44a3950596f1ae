#include "pleach/runtime/flight_recorder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "pleach/runtime/flight_file.h"

namespace pleach {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr TimePoint at_us(int64_t us) {
  return TimePoint(microseconds(us));
}

std::vector<Rank> sources(std::initializer_list<int32_t> ranks) {
  std::vector<Rank> all;
  for (const int32_t rank : ranks) {
    all.push_back(Rank{rank});
  }
  return all;
}

TEST(FlightRecorderTest, TellsWhatHasHappenedToEachOperation) {
  FlightRecorder recorder(Rank{1}, 4);
  recorder.name_channel(7, {"world", {Rank{0}, Rank{1}, Rank{2}, Rank{3}}});
  recorder.name_schedule(0x3fa2, "ring");
  recorder.set_now(at_us(1000));
  const uint64_t first = recorder.begin(7, 1, 11, sources({0, 2}));
  const uint64_t second = recorder.begin(7, 2, 12, sources({3}));
  recorder.set_now(at_us(1250));
  recorder.arrived(first, Rank{2});
  recorder.set_now(at_us(1300));
  recorder.arrived(first, Rank{2});   // another segment
  recorder.arrived(second, Rank{0});  // from which nothing is expected
  recorder.end(second, true);

  const FlightLog log = recorder.log();
  EXPECT_EQ(log.rank, Rank{1});
  EXPECT_EQ(log.rank_count, 4);
  EXPECT_EQ(log.channels.at(7).name, "world");
  EXPECT_EQ(log.schedules.at(0x3fa2), "ring");
  ASSERT_EQ(log.operations.size(), 2u);
  const auto& [entry, segments] = log.operations[0];
  EXPECT_EQ(entry.channel, 7u);
  EXPECT_EQ(entry.operation, 1u);
  EXPECT_EQ(entry.fingerprint, 11u);
  EXPECT_EQ(entry.started, at_us(1000));
  EXPECT_EQ(entry.finished, TimePoint());
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].peer, Rank{0});
  EXPECT_FALSE(segments[0].has_come);
  EXPECT_EQ(segments[1].peer, Rank{2});
  EXPECT_TRUE(segments[1].has_come);
  EXPECT_EQ(segments[1].after, nanoseconds(249'984));  // a multiple of 128
  const FlightEntry& failed = log.operations[1].entry;
  EXPECT_TRUE(failed.has_failed);
  EXPECT_EQ(failed.finished, at_us(1300));
  ASSERT_EQ(log.operations[1].first_segments.size(), 1u);
  EXPECT_FALSE(log.operations[1].first_segments[0].has_come);
}

TEST(FlightRecorderTest, KeepsTheLastOperations) {
  constexpr uint64_t kAll = 3 * FlightRecorder::kEntries + 5;
  FlightRecorder recorder(Rank{0}, 2);
  for (uint64_t operation = 1; operation <= kAll; ++operation) {
    const uint64_t number = recorder.begin(1, operation, 0, sources({1}));
    recorder.arrived(number, Rank{1});
    recorder.end(number, false);
    EXPECT_EQ(number, operation);
  }
  recorder.arrived(1, Rank{1});  // of an entry that is another's by now
  recorder.end(1, true);
  const FlightLog log = recorder.log();
  ASSERT_EQ(log.operations.size(), FlightRecorder::kEntries);
  uint64_t expected = kAll - FlightRecorder::kEntries + 1;
  for (const FlightLog::Operation& operation : log.operations) {
    EXPECT_EQ(operation.entry.operation, expected++);
    EXPECT_FALSE(operation.entry.has_failed);
  }
  EXPECT_EQ(recorder.find(1, kAll - FlightRecorder::kEntries), nullptr);
  ASSERT_NE(recorder.find(1, kAll), nullptr);
  EXPECT_EQ(recorder.find(1, kAll)->operation, kAll);
  EXPECT_EQ(recorder.find(2, kAll), nullptr);
  EXPECT_EQ(recorder.find(0, 0), nullptr);
}

TEST(FlightRecorderTest, FirstSegmentsHaveTimesFromTheirOperationsStartOn) {
  struct Case {
    Duration after, told;
  };
  const std::vector<Case> cases = {
      {nanoseconds(0), nanoseconds(0)},
      {nanoseconds(300), nanoseconds(256)},
      {milliseconds(64), milliseconds(64)},
      {std::chrono::hours(30), nanoseconds(int64_t{UINT32_MAX - 1} * 128)},
  };
  for (const auto& [after, told] : cases) {
    FlightRecorder recorder(Rank{0}, 2);
    recorder.set_now(at_us(5'000'000));
    const uint64_t number = recorder.begin(1, 1, 0, sources({1}));
    recorder.set_now(at_us(5'000'000) + after);
    recorder.arrived(number, Rank{1});
    ASSERT_TRUE(recorder.log().operations[0].first_segments[0].has_come);
    EXPECT_EQ(recorder.log().operations[0].first_segments[0].after, told);
  }
}

TEST(FlightRecorderTest, AFolderThatTakesNoFilesIsSaidAtOnce) {
  const auto text = [](const FlightReason&) { return std::string(); };
  const auto writer = FlightWriter::create({.folder = "/proc/self"}, Rank{3}, text);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, ErrorCode::kIo);
  EXPECT_TRUE(writer.error().message.starts_with("cannot write '/proc/self/rank-3.json': "));
}

TEST(FlightRecorderTest, LargeJobsAreNotedInPart) {
  FlightRecorder recorder(Rank{0}, 100'000);
  const uint64_t number = recorder.begin(1, 1, 0, sources({3, 99'999}));
  recorder.arrived(number, Rank{99'999});
  const FlightLog log = recorder.log();
  ASSERT_EQ(log.operations[0].first_segments.size(), 1u);
  EXPECT_EQ(log.operations[0].first_segments[0].peer, Rank{3});
}

TEST(FlightRecorderTest, NamesOfChannelsThatNothingRefersToAreForgotten) {
  FlightRecorder recorder(Rank{0}, 2);
  recorder.begin(5, 1, 0, {});
  for (uint64_t channel = 1; channel <= 5000; ++channel) {
    recorder.name_channel(channel, {"c", {Rank{0}}});
    recorder.name_schedule(channel, "ring");
  }
  const FlightLog log = recorder.log();
  EXPECT_LE(log.channels.size(), 1024u);
  EXPECT_LE(log.schedules.size(), 1024u);
  EXPECT_TRUE(log.channels.contains(5));
  EXPECT_TRUE(log.channels.contains(5000));
}

}  // namespace
}  // namespace pleach
