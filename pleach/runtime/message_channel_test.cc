#include "pleach/runtime/message_channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/silent_transport.h"

namespace pleach {
namespace {

using Bytes = std::vector<std::byte>;
using Kind = TransportEvent::Kind;

constexpr uint64_t kChannel = 3;

// The channels of some ranks, and between them a network that shows events in any order.
class Network {
 public:
  Network(int32_t rank_count, int32_t places, int64_t place_bytes, uint64_t seed) : rng_(seed) {
    std::vector<Rank> ranks;
    for (int32_t rank = 0; rank < rank_count; ++rank) {
      ranks.push_back(Rank{rank});
    }
    for (const Rank rank : ranks) {
      Node& node = *nodes_.emplace_back(std::make_unique<Node>(*this, rank, rank_count));
      node.channel = std::make_unique<MessageChannel>(
          MessageGroup{rank, ranks, std::chrono::seconds(9)},
          ChannelOptions{.number = kChannel, .places = places, .place_bytes = place_bytes},
          node.transport, node.sending);
    }
  }

  void start(Rank rank, MessageState& message) {
    const Status status = message.begin(*nodes_[rank.index()]->channel, 1, TimePoint());
    ASSERT_TRUE(status.has_value()) << status.error().message;
  }

  // Lets any of what may happen next happen, until nothing may.
  void settle() {
    while (!pending_.empty()) {
      std::swap(pending_[rng_.below(pending_.size())], pending_.back());
      const Pending next = pending_.back();
      pending_.pop_back();
      Node& node = *nodes_[next.to.index()];
      if (next.event.kind == Kind::kSent) {
        node.sending[next.event.peer.index()] = false;
      }
      Status status = node.channel->handle(next.event);
      ASSERT_TRUE(status.has_value()) << status.error().message;
      status = node.channel->proceed(TimePoint());
      ASSERT_TRUE(status.has_value()) << status.error().message;
    }
  }

 private:
  struct Pending {
    Rank to;
    TransportEvent event;
  };

  class Transport final : public support::SilentTransport {
   public:
    Transport(Network& network, Rank rank) : network_(network), rank_(rank) {}
    Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                      std::span<const std::span<const std::byte>> pieces) override {
      return network_.send(rank_, peer,
                           {.kind = Kind::kArrived,
                            .peer = rank_,
                            .channel = channel,
                            .tag = tag,
                            .fingerprint = fingerprint,
                            .payload = pieces[0]});
    }
    Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t /*place*/) override {
      network_.pending_.push_back({peer, {Kind::kReleased, rank_, channel, tag}});
      return ok();
    }

   private:
    Network& network_;
    Rank rank_;
  };

  struct Node {
    Node(Network& network, Rank rank, int32_t rank_count)
        : transport(network, rank), sending(at(rank_count)) {}
    Transport transport;
    std::vector<bool> sending;
    std::unique_ptr<MessageChannel> channel;
  };

  // What is sent lands at home or in a place, and leaves its memory at once or later.
  bool send(Rank from, Rank to, TransportEvent event) {
    std::span<std::byte> memory = nodes_[to.index()]->channel->find_home(
        from, event.tag, event.fingerprint, event.payload.size());
    if (memory.empty() && !event.payload.empty()) {
      memory = std::span(places_.emplace_back()).first(event.payload.size());
      PLEACH_CHECK(event.payload.size() <= places_.back().size(), "it fits a place");
    }
    std::ranges::copy(event.payload, memory.begin());
    event.payload = memory;
    pending_.push_back({to, event});
    const bool has_left = rng_.below(2) == 0;
    if (!has_left) {
      pending_.push_back({from, {Kind::kSent, to, event.channel, event.tag}});
    }
    return has_left;
  }

  Rng rng_;
  std::vector<Pending> pending_;
  std::deque<std::array<std::byte, 16>> places_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

MessageRequest send_request(int32_t to, int32_t tag, Bytes& bytes) {
  return {true, Rank{to}, tag, bytes.data(), std::ssize(bytes), Duration::max()};
}

MessageRequest receive_request(int32_t from, int32_t tag, Bytes& bytes) {
  return {false, Rank{from}, tag, bytes.data(), std::ssize(bytes), Duration::max()};
}

// Two ranks send to the third, which takes one tag from any and the other by source.
TEST(MessageChannelTest, EventsInAnyOrderGiveWhatTheRuleSays) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    Network network(3, 1 + static_cast<int32_t>(rng.below(3)), 16, seed);
    std::deque<MessageState> sends, receives;
    std::deque<Bytes> memory;
    for (int32_t i = 0; i < 12; ++i) {  // by turns from rank 0 and rank 1, with two tags
      Bytes& bytes = memory.emplace_back(rng.below(60), static_cast<std::byte>(i));
      sends.emplace_back().request = send_request(2, i / 2 % 2, bytes);
      const int32_t source = i / 2 % 2 == 0 ? -1 : i % 2;
      receives.emplace_back().request =
          receive_request(source, i / 2 % 2, memory.emplace_back(60, std::byte{0xff}));
    }
    std::size_t sent = 0, posted = 0;
    while (sent < sends.size() || posted < receives.size()) {
      if (sent < sends.size() && (posted == receives.size() || rng.below(2) == 0)) {
        network.start(Rank{static_cast<int32_t>(sent % 2)}, sends[sent]);
        ++sent;
      } else {
        network.start(Rank{2}, receives[posted++]);
      }
      if (rng.below(3) == 0) {
        network.settle();
      }
    }
    network.settle();
    std::map<std::pair<int32_t, int32_t>, int32_t> last;  // by tag and source
    for (const MessageState& receive : receives) {
      ASSERT_TRUE(receive.is_over());
      const int32_t tag = receive.request.tag;
      const int32_t source = receive.received.source.value;
      int32_t& previous = last.try_emplace({tag, source}, source + 2 * tag - 4).first->second;
      previous += 4;  // the next of that source and tag
      const Bytes& bytes = memory[at(previous) * 2];
      ASSERT_EQ(receive.received.bytes, std::ssize(bytes));
      ASSERT_TRUE(std::ranges::equal(bytes, std::span(receive.request.memory, bytes.size())));
      ASSERT_TRUE(bytes.size() == 60 || receive.request.memory[bytes.size()] == std::byte{0xff});
    }
    ASSERT_TRUE(std::ranges::all_of(sends, [](const auto& message) { return message.is_over(); }));
  }
}

// Letters and lists are there after the first of their kind.
TEST(MessageChannelTest, AllocatesNothingOnceItIsWarm) {
  MessageState sends[6], receives[6];
  Bytes out[6], in[6];
  support::SilentTransport silent;
  std::vector<bool> sending(2);
  MessageChannel channel({Rank{0}, {Rank{0}, Rank{1}}, std::chrono::seconds(9)},
                         {.number = kChannel, .places = 64, .place_bytes = 64}, silent, sending);
  int64_t before = 0;
  uint64_t heard = 0;
  for (int round = 0; round < 3; ++round) {
    before = support::allocations;
    for (int i = 0; i < 6; ++i) {
      const bool is_early = i % 2 == 0;
      out[i].resize(8);
      in[i].resize(8);
      const auto hear = [&] {
        EXPECT_TRUE(channel.handle({.kind = Kind::kArrived,
                                    .peer = Rank{1},
                                    .channel = kChannel,
                                    .tag = {++heard, i, -1},
                                    .payload = out[i]}));
      };
      receives[i].request = receive_request(1, i, in[i]);
      sends[i].request = send_request(1, i, out[i]);
      if (is_early) {
        hear();
      }
      EXPECT_TRUE(receives[i].begin(channel, 1, TimePoint()));
      if (!is_early) {
        hear();
      }
      EXPECT_TRUE(sends[i].begin(channel, 1, TimePoint()));
      EXPECT_TRUE(receives[i].is_over());
      EXPECT_TRUE(sends[i].is_over());
    }
  }
  EXPECT_EQ(support::allocations, before);
}

// A receive of 20 bytes with tag 5 from rank 1 waits, and a send of 20 bytes has been announced.
TEST(MessageChannelTest, RefusesWhatBelongsToNoMessage) {
  const Bytes eight(8);
  const auto arrived = [&](SegmentTag tag, uint64_t fingerprint = 0, std::size_t bytes = 0) {
    return TransportEvent{.kind = Kind::kArrived,
                          .peer = Rank{1},
                          .channel = kChannel,
                          .tag = tag,
                          .fingerprint = fingerprint,
                          .payload = std::span(eight).first(bytes)};
  };
  TransportEvent lent = arrived({1, 5, -1}, 0, 8);
  lent.is_lent = true;
  TransportEvent stranger = arrived({1, 5, -1});
  stranger.peer = Rank{2};
  struct Case {
    std::string name;
    std::vector<TransportEvent> events;  // the last is refused
  };
  const std::vector<Case> cases = {
      {"negative tag", {arrived({1, -5, -1})}},
      {"negative size", {arrived({1, 5, -2}, uint64_t{1} << 63)}},
      {"number 0", {arrived({0, 5, -1})}},
      {"heard of twice", {arrived({1, 6, -1}), arrived({1, 6, -1})}},
      {"further ahead than there are places", {arrived({4, 5, -1})}},
      {"lent whole", {lent}},
      {"of no member", {stranger}},
      {"unknown kind", {arrived({1, 5, -4})}},
      {"grant of what was not sent", {arrived({9, 0, -3})}},
      {"grant twice", {arrived({1, 0, -3}), arrived({1, 0, -3})}},
      {"segment of nothing", {arrived({1, 0, 0}, 0, 8)}},
      {"segment of the wrong size", {arrived({1, 5, -2}, 20), arrived({1, 0, 0}, 0, 7)}},
      {"segment beyond the end", {arrived({1, 5, -2}, 20), arrived({1, 0, 3}, 0, 8)}},
      {"segments after the last",
       {arrived({1, 5, -2}, 8), arrived({1, 0, 0}, 0, 8), arrived({1, 0, 0}, 0, 8)}},
      {"segment twice",
       {arrived({1, 5, -2}, 20), arrived({1, 0, 0}, 0, 8), arrived({1, 0, 0}, 0, 8)}},
      {"release of a place that is free",
       {{Kind::kReleased, Rank{1}, kChannel, {1, 5, -2}},
        {Kind::kReleased, Rank{1}, kChannel, {1, 5, -2}}}},
      {"release of what was not whole", {{Kind::kReleased, Rank{1}, kChannel, {1, 5, -1}}}},
      {"release of what was not lent", {{Kind::kReleased, Rank{1}, kChannel, {9, 1, 0}}}},
      {"release of what was sent, as if it had been lent",
       {arrived({1, 0, -3}), {Kind::kReleased, Rank{1}, kChannel, {1, 1, 0}}}},
      {"word of a collective", {{Kind::kBegun, Rank{1}, kChannel, {1, 0, 0}}}},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    support::SilentTransport silent;
    std::vector<bool> sending(3);
    MessageChannel channel({Rank{0}, {Rank{0}, Rank{1}}, std::chrono::seconds(9)},
                           {.number = kChannel, .places = 3, .place_bytes = 8}, silent, sending);
    Bytes out(20), in(20);
    MessageState send, receive;
    send.request = send_request(1, 5, out);
    receive.request = receive_request(1, 5, in);
    ASSERT_TRUE(send.begin(channel, 1, TimePoint()));
    ASSERT_TRUE(receive.begin(channel, 2, TimePoint()));
    Status status = ok();
    for (const TransportEvent& event : row.events) {
      ASSERT_TRUE(status.has_value()) << status.error().message;
      status = channel.handle(event);
    }
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kIo);
    EXPECT_EQ(channel.culprit(), row.events.back().peer);
    EXPECT_NE(status.error().message.find("sent what belongs to no message"), std::string::npos);
  }
}

// A peer may guess what it is to be told, and grant it before.
TEST(MessageChannelTest, NoMessageEndsWhileItIsAnnounced) {
  class Slow final : public support::SilentTransport {
    Result<bool> send(Rank, uint64_t, SegmentTag, uint64_t,
                      std::span<const std::span<const std::byte>>) override {
      return false;
    }
  } slow;
  std::vector<bool> sending(2);
  MessageChannel channel({Rank{0}, {Rank{0}, Rank{1}}, std::chrono::seconds(9)},
                         {.number = kChannel, .places = 1, .place_bytes = 8}, slow, sending);
  Bytes none;
  MessageState send;
  send.request = send_request(1, 5, none);
  ASSERT_TRUE(send.begin(channel, 1, TimePoint()));
  ASSERT_TRUE(channel.handle(
      {.kind = Kind::kArrived, .peer = Rank{1}, .channel = kChannel, .tag = {1, 0, -3}}));
  EXPECT_FALSE(send.is_over());
  ASSERT_TRUE(channel.handle({Kind::kSent, Rank{1}, kChannel, {1, 5, -2}}));
  EXPECT_TRUE(send.is_over());
}

// Of one that only announces, a rank remembers so many.
TEST(MessageChannelTest, UnreceivedMessagesHaveALimit) {
  support::SilentTransport silent;
  std::vector<bool> sending(2);
  MessageChannel channel({Rank{0}, {Rank{0}, Rank{1}}, std::chrono::seconds(9)},
                         {.number = kChannel, .places = 2, .place_bytes = 8}, silent, sending);
  Bytes in(8);
  MessageState receive;
  receive.request = receive_request(1, 7, in);
  Status status = ok();
  uint64_t heard = 0;
  const auto announce = [&] {
    status = channel.handle({.kind = Kind::kArrived,
                             .peer = Rank{1},
                             .channel = kChannel,
                             .tag = {++heard, 7, -2},
                             .fingerprint = 8});
  };
  announce();
  ASSERT_TRUE(receive.begin(channel, 1, TimePoint()));
  while (status && heard < (1U << 20) + 1) {
    announce();
  }
  EXPECT_TRUE(status.has_value()) << heard;
  announce();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "rank 1 has sent 1048577 messages that nobody has received");
  EXPECT_EQ(channel.culprit(), Rank{1});
}

}  // namespace
}  // namespace pleach
