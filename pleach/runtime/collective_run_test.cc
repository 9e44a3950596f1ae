// The state machine by itself: told events by hand, over a transport that only takes notes.
#include "pleach/runtime/collective_run.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "pleach/collective/order.h"
#include "pleach/collective/program.h"
#include "tests/support/counterexamples.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/silent_transport.h"

namespace pleach {
namespace {

using support::kReduce;
using support::make_schedule;

// What was asked of it last.
class NotingTransport : public support::SilentTransport {
 public:
  Status tell_begun(Rank /*peer*/, uint64_t /*channel*/, uint64_t /*operation*/,
                    uint64_t /*fingerprint*/) override {
    ++begun;
    return ok();
  }
  Result<bool> send(Rank peer, uint64_t /*channel*/, SegmentTag tag, uint64_t /*fingerprint*/,
                    std::span<const std::span<const std::byte>> pieces) override {
    sent = {peer, tag};
    value = 0;
    if (!pieces.empty()) {
      std::memcpy(&value, pieces[0].data(), sizeof value);
    }
    ++sends;
    return takes_all;
  }
  Status release(Rank /*peer*/, uint64_t /*channel*/, SegmentTag /*tag*/,
                 int32_t /*place*/) override {
    ++releases;
    return ok();
  }
  Status wait(TimePoint /*deadline*/, bool /*is_eager*/) override {
    ADD_FAILURE() << "a run does not wait";
    return ok();
  }
  uint64_t moved_bytes() const override { return moved; }

  bool takes_all = false;
  std::pair<Rank, SegmentTag> sent;
  float value = 0;  // first of what was sent
  int32_t sends = 0;
  int32_t releases = 0;
  int32_t begun = 0;
  uint64_t moved = 0;
};

TimePoint at_second(int32_t second) {
  return TimePoint(std::chrono::seconds(second));
}

const ChannelOptions kChannel;

// Rank 0 of two that exchange one float.
class Exchange : public testing::Test {
 protected:
  Exchange() : index_(exchange_program()), run_(index_) {}

  static Program exchange_program() {
    const Schedule schedule = make_schedule({}, {{0, 1, 0, 1, kReduce}, {0, 1, 1, 0, kReduce}});
    return lower(schedule, Order::build(schedule), {.rank = Rank{0}, .count = 1}).value();
  }

  Status start(uint64_t operation, int32_t free_places = 1) {
    input_ = 3;
    output_ = 0;
    spec_.operation = operation;
    spec_.input = reinterpret_cast<const std::byte*>(&input_);
    spec_.output = reinterpret_cast<std::byte*>(&output_);
    spec_.deadline = std::chrono::seconds(10);
    lanes_.assign(2, Lane{free_places, {}});
    sending_.assign(2, false);
    const RunWorld world = {transport_, kChannel, lanes_, sending_, scratch_};
    PLEACH_TRY(run_.start(spec_, world, at_second(0)));
    return run_.proceed(at_second(0));
  }
  TransportEvent event(TransportEvent::Kind kind, int32_t place = 0) const {
    const bool is_arrival = kind == TransportEvent::Kind::kArrived;
    const ProgramMessage& message =
        is_arrival ? index_.program().receives[0] : index_.program().sends[0];
    TransportEvent result{
        .kind = kind, .peer = Rank{1}, .tag = {spec_.operation, message.stream, 0}};
    result.place = place;
    if (is_arrival) {
      result.payload = std::as_bytes(std::span(&theirs_, 1));
    }
    return result;
  }
  Status tell(TransportEvent::Kind kind, int32_t place = 0) {
    sending_[1] = sending_[1] && kind != TransportEvent::Kind::kSent;
    PLEACH_TRY(run_.handle(event(kind, place)));
    return run_.proceed(at_second(1));
  }
  // The whole run, as it goes well.
  void exchange(uint64_t operation) {
    ASSERT_TRUE(start(operation));
    ASSERT_TRUE(tell(TransportEvent::Kind::kSent));
    ASSERT_TRUE(tell(TransportEvent::Kind::kArrived));
    ASSERT_TRUE(run_.is_done());
    ASSERT_EQ(output_, 8);
  }

  ProgramIndex index_;
  CollectiveRun run_;
  RunSpec spec_;
  NotingTransport transport_;  // and the rest of its world
  std::vector<Lane> lanes_;
  std::vector<bool> sending_;
  ScratchBlocks scratch_;
  float input_ = 0, output_ = 0, theirs_ = 5;
};

TEST_F(Exchange, GoesOnAsItIsTold) {
  ASSERT_TRUE(start(1));
  EXPECT_EQ(transport_.sends, 1);
  EXPECT_EQ(transport_.value, 3);
  EXPECT_EQ(transport_.sent.second.operation, 1U);
  EXPECT_EQ(lanes_[1].free_places, 0);
  // The sum may not overwrite what is on its way.
  ASSERT_TRUE(tell(TransportEvent::Kind::kArrived));
  EXPECT_EQ(transport_.releases, 0);
  EXPECT_FALSE(run_.is_done());
  ASSERT_TRUE(tell(TransportEvent::Kind::kSent));
  EXPECT_EQ(transport_.releases, 1);
  EXPECT_TRUE(run_.is_done());
  EXPECT_TRUE(lanes_[1].runs.empty());
  EXPECT_EQ(output_, 8);
}

TEST_F(Exchange, ReductionsHaveNoHome) {
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(tell(TransportEvent::Kind::kSent));
  const TransportEvent arrival = event(TransportEvent::Kind::kArrived);
  EXPECT_TRUE(run_.find_home(Rank{1}, arrival.tag, arrival.payload.size()).empty());
}

TEST_F(Exchange, TakesWhatHasLeftAtOnce) {
  transport_.takes_all = true;
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(tell(TransportEvent::Kind::kArrived));
  EXPECT_TRUE(run_.is_done());
  EXPECT_EQ(output_, 8);
}

TEST_F(Exchange, WaitsForAFreePlace) {
  ASSERT_TRUE(start(1, 0));
  EXPECT_EQ(transport_.sends, 0);
  lanes_[1].free_places = 1;
  sending_[1] = true;  // a segment of another run, or of another channel
  ASSERT_TRUE(run_.proceed(at_second(1)));
  EXPECT_EQ(transport_.sends, 0);
  sending_[1] = false;
  ASSERT_TRUE(run_.proceed(at_second(1)));
  EXPECT_EQ(transport_.sends, 1);
}

TEST_F(Exchange, AllocatesNothingAfterTheFirstRun) {
  exchange(1);
  const int64_t before = support::allocations;
  for (uint64_t sequence = 2; sequence < 100; ++sequence) {
    exchange(sequence);
  }
  EXPECT_EQ(support::allocations, before);
}

TEST_F(Exchange, BeginsAnewAfterARunThatFailed) {
  ASSERT_TRUE(start(1));
  EXPECT_EQ(tell(TransportEvent::Kind::kLost).error().code, ErrorCode::kPeerLost);
  EXPECT_EQ(run_.culprit(), Rank{1});
  exchange(2);
}

TEST_F(Exchange, RefusesWhatBreaksTheRules) {
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(run_.handle(event(TransportEvent::Kind::kArrived)));
  const Status again = run_.handle(event(TransportEvent::Kind::kArrived));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kIo) << again.error().message;
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(run_.handle(event(TransportEvent::Kind::kReleased)));
  EXPECT_FALSE(run_.handle(event(TransportEvent::Kind::kReleased)));
  for (const auto kind : {TransportEvent::Kind::kArrived, TransportEvent::Kind::kBegun}) {
    ASSERT_TRUE(start(1));
    TransportEvent other = event(kind);
    other.fingerprint = 7;
    EXPECT_EQ(run_.handle(other).error().code, ErrorCode::kInvalidArgument);
  }
}

// Rank 1 of three, in the midst of a chain 0 -> 1 -> 2 of two chunks; then rank 2 sends the first
// chunk back.
TEST(CollectiveRunTest, SegmentsAreAtHomeWhereTheOrderPermits) {
  const Schedule schedule =
      make_schedule({.collective = CollectiveKind::kBroadcast, .rank_count = 3, .chunk_count = 2},
                    {{0, 2, 0, 1, support::kCopy},
                     {0, 2, 1, 2, support::kCopy, 1},
                     {0, 1, 2, 1, support::kCopy, 2}});
  const ProgramIndex index(
      lower(schedule, Order::build(schedule), {.rank = Rank{1}, .count = 4}).value());
  CollectiveRun run(index);
  NotingTransport transport;
  std::vector<Lane> lanes(3, Lane{4, {}});
  std::vector<bool> sending(3);
  std::vector<float> output(4);
  std::byte* const home = std::as_writable_bytes(std::span(output)).data();
  RunSpec spec;
  spec.output = home;
  const ChannelOptions channel;
  ScratchBlocks scratch;
  ASSERT_TRUE(run.start(spec, {transport, channel, lanes, sending, scratch}, at_second(0)));
  ASSERT_TRUE(run.proceed(at_second(0)));
  const auto tag = [&](int32_t rank) {
    for (const ProgramMessage& message : index.program().receives) {
      if (message.peer == Rank{rank}) {
        return SegmentTag{1, message.stream, 0};
      }
    }
    return SegmentTag{};
  };
  const auto find = [&](int32_t rank, std::size_t bytes) {
    return run.find_home(Rank{rank}, tag(rank), bytes);
  };
  EXPECT_EQ(find(0, 16).data(), home);
  EXPECT_EQ(find(0, 16).size(), 16U);
  EXPECT_TRUE(find(0, 12).empty());  // not what the schedule says
  EXPECT_TRUE(find(0, 0).empty());
  EXPECT_TRUE(find(2, 8).empty());  // what comes first has not come
  EXPECT_TRUE(run.find_home(Rank{0}, {1, 99, 0}, 16).empty());
  EXPECT_TRUE(run.find_home(Rank{0}, {1, tag(0).stream, 1}, 16).empty());
  output = {1, 2, 3, 4};
  ASSERT_TRUE(run.handle({.kind = TransportEvent::Kind::kArrived,
                          .peer = Rank{0},
                          .tag = tag(0),
                          .payload = std::as_bytes(std::span(output))}));
  EXPECT_TRUE(find(0, 16).empty());  // it is here
  ASSERT_TRUE(run.proceed(at_second(0)));
  EXPECT_EQ(transport.sent.first, Rank{2});
  EXPECT_TRUE(find(2, 8).empty());  // what stands there is on its way
  ASSERT_TRUE(run.handle(
      {.kind = TransportEvent::Kind::kSent, .peer = Rank{2}, .tag = transport.sent.second}));
  EXPECT_EQ(find(2, 8).data(), home);
  EXPECT_EQ(output, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(Exchange, AsksWhoHasBegunBeforeItGivesUp) {
  ASSERT_TRUE(start(1));
  EXPECT_EQ(run_.expiry(), at_second(1));
  EXPECT_EQ(transport_.begun, 0);
  ASSERT_TRUE(run_.proceed(at_second(1)));
  EXPECT_EQ(transport_.begun, 1);
  EXPECT_EQ(run_.expiry(), at_second(10));
  EXPECT_TRUE(run_.proceed(at_second(9)));
  const Status late = run_.proceed(at_second(10));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "rank 1 did not begin it within 10 s");
  EXPECT_EQ(run_.culprit(), Rank{1});
  // Who is asked answers, once.
  ASSERT_TRUE(start(2));
  ASSERT_TRUE(tell(TransportEvent::Kind::kBegun));
  ASSERT_TRUE(tell(TransportEvent::Kind::kBegun));
  EXPECT_EQ(transport_.begun, 2);
}

TEST_F(Exchange, GivesUpOnlyWhenNothingMoves) {
  // Who has begun gets a quarter longer between events, and for as long as bytes move.
  ASSERT_TRUE(start(1));
  ASSERT_TRUE(tell(TransportEvent::Kind::kBegun));
  ASSERT_TRUE(run_.proceed(at_second(5)));
  ASSERT_TRUE(run_.proceed(at_second(10)));
  EXPECT_EQ(run_.expiry(), at_second(1) + std::chrono::milliseconds(12'500));
  transport_.moved = 100;
  EXPECT_TRUE(run_.proceed(at_second(14)));
  EXPECT_EQ(run_.expiry(), at_second(14) + std::chrono::milliseconds(12'500));
  const Status stuck = run_.proceed(at_second(27));
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().message, "waited 10 s for rank 1 to send chunk 0 of step 0, segment 0");
}

}  // namespace
}  // namespace pleach
