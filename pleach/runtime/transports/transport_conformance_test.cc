// What every transport must do, whatever carries it.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/reference.h"
#include "pleach/runtime/peer_memory.h"
#include "tests/support/bare_transports.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using support::BareTransports;
using Kind = TransportEvent::Kind;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Names, as support::TransportSpec has them.
class TransportConformanceTest : public testing::TestWithParam<std::string> {
 public:
  static const std::string& name() { return GetParam(); }
  // Ranks 0 and 1 share memory.
  static bool lends() { return name() != "tcp" && name() != "host/1" && name() != "ucx"; }

  // Sends a text; the transport takes it at once or later, so it is kept.
  static void send_text(Transport& from, int32_t to, uint64_t channel, SegmentTag tag,
                        const std::string& text, uint64_t fingerprint = 9) {
    ASSERT_TRUE(from.connect(Rank{to}));
    const std::span<const std::byte> bytes = bytes_of(kept_.emplace_back(text));
    const std::array pieces = {bytes.first(text.size() / 3), bytes.subspan(text.size() / 3)};
    ASSERT_TRUE(from.send(Rank{to}, channel, tag, fingerprint, pieces));
  }

 private:
  static inline std::deque<std::string> kept_ = {};
};

TEST_P(TransportConformanceTest, CollectivesOfEverySizeAreRight) {
  const std::vector<Schedule> schedules = {
      support::ring_schedule(CollectiveKind::kAllReduce, 3, 1),
      support::direct_schedule(CollectiveKind::kAllToAll, 4),
      support::halving_schedule(4),
  };
  for (const Schedule& schedule : schedules) {
    for (const int64_t count : {0, 4, 12, 120'000, 3'000'000}) {
      for (const int32_t segments : {1, 7}) {
        for (const uint64_t delay_seed : {0U, 3U}) {
          if (count > 1'000'000 && delay_seed != 0) {
            continue;  // small ones show what delays do
          }
          SCOPED_TRACE(std::string(to_text(schedule.collective)) + " of " + std::to_string(count));
          const ReferenceRequest reference =
              reference_request(schedule, ElementType::kFloat32, ReduceOp::kSum, count, 5);
          const support::RunOutcome outcome = support::run_schedule(
              schedule,
              {.count = count,
               .segment_count = segments,
               .landing_places = segments == 1 ? 1 : 3,
               .in_place = segments == 7,
               .transport = name(),
               .delay_seed = delay_seed,
               .lenders = delay_seed == 0 ? 0xfU : 0x5U,
               .fetching = segments == 1 ? ChannelOptions::Fetching::kAlways
                                         : ChannelOptions::Fetching::kNever},
              [&](Rank rank, std::span<std::byte> input) { fill_input(reference, rank, input); });
          for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
            const auto index = at(rank);
            ASSERT_EQ(outcome.errors[index], "");
            ASSERT_EQ(count_wrong(reference, Rank{rank}, outcome.outputs[index], segments == 7), 0);
          }
        }
      }
    }
  }
}

TEST_P(TransportConformanceTest, MessageOfThousandsOfPiecesArrivesWhole) {
  // Chunks lie apart in the rank's input and together in the message: a broadcast of every segment
  // of 3,000 chunks.
  constexpr int32_t kChunks = 3000;
  const Schedule schedule =
      support::make_schedule({.collective = CollectiveKind::kBroadcast, .chunk_count = kChunks},
                             {{0, kChunks, 0, 1, support::kCopy}});
  const ReferenceRequest reference =
      reference_request(schedule, ElementType::kInt32, ReduceOp::kSum, 50'000, 5);
  const support::RunOutcome outcome = support::run_schedule(
      schedule,
      {.type = ElementType::kInt32, .count = 50'000, .segment_count = 3, .transport = name()},
      [&](Rank rank, std::span<std::byte> input) { fill_input(reference, rank, input); });
  EXPECT_EQ(outcome.errors, std::vector<std::string>(2));
  EXPECT_EQ(count_wrong(reference, Rank{1}, outcome.outputs[1]), 0);
}

// A segment says what it is, stays as it was sent until it is released, and its sender then hears
// of it.
TEST_P(TransportConformanceTest, SegmentsStayInTheirPlacesUntilTheyAreReleased) {
  BareTransports ranks(name(), 3);
  ranks.open({.number = 5, .places = 2, .place_bytes = 1000});
  std::string first(1000, 'a');
  send_text(ranks[1], 0, 5, {.operation = 3, .stream = 7, .segment = 1}, first);
  const std::vector<TransportEvent> arrived = ranks.see(0, 1);
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].kind, Kind::kArrived);
  EXPECT_EQ(arrived[0].peer, Rank{1});
  EXPECT_EQ(arrived[0].channel, 5U);
  EXPECT_EQ(arrived[0].fingerprint, 9U);
  EXPECT_EQ(arrived[0].tag, (SegmentTag{.operation = 3, .stream = 7, .segment = 1}));
  first.assign(1000, 'z');  // it has left
  std::string second(10, 'b');
  send_text(ranks[1], 0, 5, {.operation = 4}, second);
  const std::vector<TransportEvent> next = ranks.see(0, 1);
  EXPECT_EQ(text_of(next[0].payload), second);
  EXPECT_EQ(text_of(arrived[0].payload), std::string(1000, 'a'));
  EXPECT_NE(arrived[0].place, next[0].place);
  for (const TransportEvent& event : {arrived[0], next[0]}) {
    ASSERT_TRUE(ranks[0].release(Rank{1}, 5, event.tag, event.place));
  }
  std::vector<TransportEvent> told = ranks.see(1, 2);
  std::erase_if(told, [](const TransportEvent& event) { return event.kind == Kind::kSent; });
  if (told.size() < 2) {
    const std::vector<TransportEvent> more = ranks.see(1, 2 - told.size());
    told.insert(told.end(), more.begin(), more.end());
  }
  ASSERT_EQ(told.size(), 2U);
  for (const TransportEvent& event : told) {
    EXPECT_EQ(event.kind, Kind::kReleased);
    EXPECT_EQ(event.channel, 5U);
  }
  EXPECT_EQ(told[0].tag.operation + told[1].tag.operation, 7U);
}

// A lent segment is read where it stands; its sender hears of each chunk, and of the end.
TEST_P(TransportConformanceTest, LentSegmentsStayWhereTheyAre) {
  BareTransports ranks(name(), 3);
  ranks.open({.number = 5, .places = 2, .place_bytes = 4096});
  send_text(ranks[1], 0, 5, {.operation = 1}, "hello");  // they are connected then
  static_cast<void>(ranks.see(0, 1));
  const std::shared_ptr<std::byte> memory = allocate_peer_memory(10'000).value();
  const std::span<std::byte> lent(memory.get() + 5000, 3000);
  std::ranges::fill(lent, std::byte{'a'});
  const SegmentTag tag{.operation = 3, .stream = 7, .segment = 1};
  const std::string ordinary(100, 'x');
  EXPECT_FALSE(ranks[1].lend(Rank{0}, 5, tag, 9, bytes_of(ordinary)).value());
  const std::span<const std::byte> beyond(memory.get() + 9000, 5000);
  EXPECT_FALSE(ranks[1].lend(Rank{0}, 5, tag, 9, beyond).value());
  const bool is_lent = ranks[1].lend(Rank{0}, 5, tag, 9, lent).value();
  EXPECT_EQ(is_lent, lends());
  if (!is_lent) {
    return;
  }
  const std::vector<TransportEvent> arrived = ranks.see(0, 1);
  ASSERT_EQ(arrived.size(), 1U);
  EXPECT_EQ(arrived[0].kind, Kind::kArrived);
  EXPECT_TRUE(arrived[0].is_lent);
  EXPECT_EQ(arrived[0].tag, tag);
  EXPECT_EQ(text_of(arrived[0].payload), std::string(3000, 'a'));
  std::ranges::fill(lent, std::byte{'b'});
  EXPECT_EQ(text_of(arrived[0].payload), std::string(3000, 'b'));
  ASSERT_TRUE(ranks[0].tell_read(Rank{1}, 5, tag, 4));
  ASSERT_TRUE(ranks[0].release(Rank{1}, 5, tag, arrived[0].place));
  std::vector<TransportEvent> told;
  for (int look = 0; look < 3 && told.size() < 2; ++look) {
    for (const TransportEvent& event : ranks.see(1, 1)) {
      if (event.kind != Kind::kSent) {  // of the text
        told.push_back(event);
      }
    }
  }
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].kind, Kind::kRead);
  EXPECT_EQ(told[0].item, 4);
  EXPECT_EQ(told[0].tag, tag);
  EXPECT_EQ(told[1].kind, Kind::kReleased);
  EXPECT_EQ(told[1].tag, tag);
}

// Memory that comes and goes leaves nothing behind at the peer.
TEST_P(TransportConformanceTest, LentMemoryIsForgottenOnceItIsFreed) {
  BareTransports ranks(name(), 2);
  ranks.open({.number = 5, .places = 3, .place_bytes = 4096});
  send_text(ranks[1], 0, 5, {.operation = 1}, "hello");
  static_cast<void>(ranks.see(0, 1));
  for (uint64_t operation = 2; operation < 3000 && lends(); ++operation) {
    const std::shared_ptr<std::byte> memory = allocate_peer_memory(100).value();
    memory.get()[0] = static_cast<std::byte>(operation);
    const std::span<const std::byte> lent(memory.get(), 100);
    ASSERT_TRUE(ranks[1].lend(Rank{0}, 5, {.operation = operation}, 9, lent).value()) << operation;
    const TransportEvent arrived = ranks.see(0, 1).at(0);
    ASSERT_EQ(arrived.payload[0], static_cast<std::byte>(operation));
    ASSERT_TRUE(ranks[0].release(Rank{1}, 5, arrived.tag, arrived.place));
    ASSERT_FALSE(ranks.see(1, 1).empty());
  }
}

// Channels have places of their own, as many in each direction as they were opened with, and empty
// segments take one too.
TEST_P(TransportConformanceTest, ChannelsShareNoPlaces) {
  BareTransports ranks(name(), 2);
  ranks.open({.number = 5, .places = 3, .place_bytes = 64});
  ranks.open({.number = 6, .places = 1, .place_bytes = 70'000});
  const std::vector<std::string> texts = {"", "one", std::string(64, 'x')};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    send_text(ranks[0], 1, 5, {.operation = i}, texts[i]);
    send_text(ranks[1], 0, 5, {.operation = i}, texts[i]);
    static_cast<void>(ranks.see(0, i == 0 ? 1 : 0));
  }
  const std::string large(70'000, 'y');
  send_text(ranks[0], 1, 6, {}, large);
  int found = 0;
  for (int round = 0; round < 200 && found < 4; ++round) {
    for (const TransportEvent& event : ranks.see(1, 1)) {
      if (event.kind == Kind::kArrived) {
        ++found;
        EXPECT_EQ(text_of(event.payload),
                  event.channel == 6 ? large : texts[at(event.tag.operation)]);
      }
    }
  }
  EXPECT_EQ(found, 4);
}

// What is said before the other reads, however much it is, arrives in order.
TEST_P(TransportConformanceTest, ManyWordsToWhoDoesNotListenArriveInOrder) {
  constexpr uint64_t kWords = 1000;
  BareTransports ranks(name(), 2);
  ranks.open({.number = 5, .places = 1, .place_bytes = 64});
  ASSERT_TRUE(ranks[1].connect(Rank{0}));
  for (uint64_t operation = 1; operation <= kWords; ++operation) {
    ASSERT_TRUE(ranks[1].tell_begun(Rank{0}, 5, operation, operation + 1));
  }
  const std::vector<TransportEvent> told = ranks.see(0, kWords);
  ASSERT_EQ(told.size(), kWords);
  for (uint64_t i = 0; i < kWords; ++i) {
    ASSERT_EQ(told[i].kind, Kind::kBegun);
    ASSERT_EQ(told[i].tag.operation, i + 1);
    ASSERT_EQ(told[i].fingerprint, i + 2);
  }
}

TEST_P(TransportConformanceTest, WhatAClosedChannelIsToldIsNoMatter) {
  BareTransports ranks(name(), 2);
  ranks.open({.number = 5, .places = 2, .place_bytes = 64});
  ranks.open({.number = 6, .places = 2, .place_bytes = 64});
  send_text(ranks[1], 0, 5, {.operation = 1}, "early");
  const std::vector<TransportEvent> arrived = ranks.see(0, 1);
  ranks[1].close(5);
  ASSERT_TRUE(ranks[0].release(Rank{1}, 5, arrived[0].tag, arrived[0].place));
  ASSERT_TRUE(ranks[0].tell_begun(Rank{1}, 5, 2, 1));
  ranks[0].close(5);
  // What is still on its way there is dropped, and what comes behind it is not.
  ranks.open({.number = 7, .places = 2, .place_bytes = 100'000});
  send_text(ranks[1], 0, 7, {.operation = 1}, std::string(70'000, 'd'));
  ranks[0].close(7);
  send_text(ranks[1], 0, 6, {.operation = 1}, "behind");
  const std::vector<TransportEvent> behind = ranks.see(0, 1);
  ASSERT_EQ(behind[0].kind, Kind::kArrived);
  EXPECT_EQ(text_of(behind[0].payload), "behind");
  // A channel that is opened anew is another.
  ranks.open({.number = 5, .places = 1, .place_bytes = 128});
  const std::string text(128, 'n');
  send_text(ranks[1], 0, 5, {.operation = 1}, text);
  std::vector<TransportEvent> anew = ranks.see(0, 1);
  ASSERT_EQ(anew[0].kind, Kind::kArrived);
  EXPECT_EQ(text_of(anew[0].payload), text);
}

// Wherever a large segment of it stands: its memory may be anything then, and another channel's
// segments arrive.
TEST_P(TransportConformanceTest, ChannelThatIsAbandonedDisturbsNoOther) {
  for (const uint32_t who : {1U, 2U, 3U}) {  // bits: the sender, the receiver
    for (int steps = 0; steps < 6; ++steps) {
      SCOPED_TRACE("abandoned by " + std::to_string(who) + " after " + std::to_string(steps));
      BareTransports ranks(name(), 2);
      ranks.open({.number = 5, .places = 1, .place_bytes = 8'000'000});
      ranks.open({.number = 6, .places = 2, .place_bytes = 300'000});
      ASSERT_TRUE(ranks[1].connect(Rank{0}));
      send_text(ranks[0], 1, 6, {.operation = 1}, "they have met");
      const TransportEvent met = ranks.see(1, 1).at(0);
      ASSERT_TRUE(ranks[1].release(Rank{0}, 6, met.tag, met.place));
      std::string large(8'000'000, 'a');
      const std::array pieces = {bytes_of(large)};
      bool is_sent = ranks[0].send(Rank{1}, 5, {.operation = 1}, 9, pieces).value();
      std::vector<TransportEvent> events;
      for (int step = 0; step < steps; ++step) {
        ASSERT_TRUE(ranks[1 - step % 2].wait(TimePoint::min(), false));
        ASSERT_TRUE(ranks[1 - step % 2].progress(events));
      }
      for (int32_t rank = 0; rank < 2; ++rank) {
        if ((who >> rank & 1) != 0) {
          ranks[rank].abandon(5);
          if (rank == 0) {
            large.assign(large.size(), 'z');
          }
        }
      }
      const std::string text(300'000, 'b');
      bool has_begun = false, has_arrived = false;
      for (int round = 0; round < 2000 && !has_arrived; ++round) {
        for (const TransportEvent& event : events) {
          ASSERT_NE(event.kind, Kind::kLost) << event.reason;
          is_sent = is_sent || (event.kind == Kind::kSent && event.channel == 5);
          if (event.kind == Kind::kArrived && event.channel == 5) {
            EXPECT_EQ(text_of(event.payload), std::string(8'000'000, 'a'));
          }
          if (event.kind == Kind::kArrived && event.channel == 6) {
            EXPECT_EQ(text_of(event.payload), text);
            has_arrived = true;
          }
        }
        if (is_sent && !has_begun) {
          has_begun = true;
          send_text(ranks[0], 1, 6, {.operation = 2}, text);
        }
        events.clear();
        ASSERT_TRUE(ranks[round % 2].flush());
        ASSERT_TRUE(ranks[round % 2].wait(SteadyClock().now() + milliseconds(1), false));
        ASSERT_TRUE(ranks[round % 2].progress(events));
      }
      EXPECT_TRUE(has_arrived);
    }
  }
}

// Who is in wait(), asleep even, returns when something comes, and when it is told to.
TEST_P(TransportConformanceTest, WhoWaitsIsWoken) {
  BareTransports ranks(name(), 2);
  ranks.open({.number = 5, .places = 4, .place_bytes = 64});
  send_text(ranks[1], 0, 5, {.operation = 1}, "hello");
  const std::vector<TransportEvent> arrived = ranks.see(0, 1);
  while (ranks[1].has_events()) {
    static_cast<void>(ranks.see(0, 0));
  }
  const std::vector<std::function<void()>> reasons = {
      [&] { ASSERT_TRUE(ranks[1].tell_begun(Rank{0}, 5, 2, 1)); },
      [&] { ranks[0].interrupt(); },
      [&] { send_text(ranks[1], 0, 5, {.operation = 2}, "more"); },
      [&] { ranks.destroy(1); },
  };
  for (std::size_t reason = 0; reason < reasons.size(); ++reason) {
    for (const bool is_eager : {false, true}) {
      if (is_eager && reason == 3) {
        continue;  // nobody can leave twice
      }
      SCOPED_TRACE(reason);
      std::vector<TransportEvent> events;
      std::thread waiting([&] {
        const TimePoint begin = SteadyClock().now();
        bool is_woken = false;
        while (!is_woken && SteadyClock().now() < begin + seconds(10)) {
          ASSERT_TRUE(ranks[0].wait(begin + seconds(20), is_eager));
          is_woken = reason == 1;
          ASSERT_TRUE(ranks[0].progress(events));
          is_woken = is_woken || !events.empty();
        }
        EXPECT_TRUE(is_woken);
        EXPECT_LT(SteadyClock().now() - begin, seconds(10));
      });
      std::this_thread::sleep_for(milliseconds(30));
      reasons[reason]();
      waiting.join();
    }
  }
}

// What a rank said before it left comes first.
TEST_P(TransportConformanceTest, RankThatLeavesIsLostOnce) {
  BareTransports ranks(name(), 3);
  ranks.open({.number = 5, .places = 4, .place_bytes = 64});
  send_text(ranks[2], 0, 5, {.operation = 1}, "hello");
  ASSERT_EQ(ranks.see(0, 1)[0].kind, Kind::kArrived);
  send_text(ranks[2], 0, 5, {.operation = 2}, "farewell");
  ranks.destroy(2);
  std::vector<TransportEvent> events = ranks.see(0, 2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind, Kind::kArrived);
  EXPECT_EQ(text_of(events[0].payload), "farewell");
  EXPECT_EQ(events[1].kind, Kind::kLost);
  EXPECT_EQ(events[1].peer, Rank{2});
  EXPECT_NE(std::string(events[1].reason), "");
  // Nothing that is said to it does harm.
  ASSERT_TRUE(ranks[0].tell_begun(Rank{2}, 5, 3, 1));
  ASSERT_TRUE(ranks[0].release(Rank{2}, 5, events[0].tag, events[0].place));
  const std::string text = "nobody";
  send_text(ranks[0], 2, 5, {.operation = 1}, text);
  ASSERT_TRUE(ranks[0].flush());
  for (int round = 0; round < 5; ++round) {
    for (const TransportEvent& event : ranks.see(0, 0)) {
      EXPECT_NE(event.kind, Kind::kLost);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, TransportConformanceTest, testing::ValuesIn([] {
                           std::vector<std::string> names = {"host/1", "host/2"};
                           for (const TransportKind* const kind : transports()) {
                             if (kind->name != "host") {  // alone on one it is shm
                               names.push_back(kind->name);
                             }
                           }
                           return names;
                         }()),
                         [](const auto& instance) {
                           std::string label = instance.param;
                           std::ranges::replace(label, '/', '_');
                           return label;
                         });

}  // namespace
}  // namespace pleach
