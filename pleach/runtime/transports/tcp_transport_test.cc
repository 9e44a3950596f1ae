#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transports/tcp_connection.h"
#include "tests/support/intruder.h"
#include "tests/support/random_schedules.h"
#include "tests/support/rank_threads.h"
#include "tests/support/small_schedules.h"

namespace pleach {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Connects to where a rank listens and says something.
Descriptor intrude(const Transport& transport, std::string_view words) {
  const std::string entry = transport.address();
  const Address address = parse_address(split(entry, ' ')[2], "address").value();
  Descriptor socket = std::move(start_connect(address)).value();
  wait_ready(socket.get(), POLLOUT, SteadyClock().now() + seconds(5));
  EXPECT_EQ(send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  return socket;
}

Claim claim_of(const Transport& transport, Rank door, int32_t rank, int32_t rank_count) {
  const std::string entry = transport.address();
  return {.purpose = Purpose::kTcp,
          .rank = rank,
          .acceptor = door.value,
          .rank_count = rank_count,
          .meeting = std::stoull(std::string(split(entry, ' ')[1]))};
}

void say(const Descriptor& socket, std::string_view words) {
  EXPECT_EQ(send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
}

// A program of its own that has proved to rank 0 that it is rank 2 of 3, which it is not.
Descriptor pose_as_rank_2(support::RankGroup& group, uint16_t lane = 0) {
  Descriptor socket = intrude(group.transport(Rank{0}), "");
  Claim claim = claim_of(group.transport(Rank{0}), Rank{0}, 2, 3);
  claim.lane = lane;
  support::be_let_in(group.transport(Rank{0}), socket.get(), group.store().secret(), claim);
  return socket;
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What has happened, once something has.
std::vector<TransportEvent> poll(Transport& transport, TimePoint deadline) {
  EXPECT_TRUE(transport.flush());
  EXPECT_TRUE(transport.wait(std::min(deadline, transport.expiry()), true));
  std::vector<TransportEvent> events;
  EXPECT_TRUE(transport.progress(events));
  return events;
}

// The first that happens, within some seconds.
std::vector<TransportEvent> await_events(Transport& transport) {
  std::vector<TransportEvent> events;
  for (int look = 0; look < 100 && events.empty(); ++look) {
    events = poll(transport, SteadyClock().now() + milliseconds(100));
  }
  return events;
}

Status run_ring(support::RankGroup& group, Rank rank, Duration deadline) {
  const Schedule ring = support::ring_schedule(CollectiveKind::kAllReduce, 3);
  std::vector<float> data(300, 1);
  OperationPool pool(
      lower(ring, Order::build(ring), {.rank = rank, .count = 300, .in_place = true}).value());
  Status status = group.run(
      rank, pool, {.output = std::as_writable_bytes(std::span(data)).data(), .deadline = deadline});
  EXPECT_TRUE(!status || data == std::vector<float>(300, 3));
  return status;
}

TEST(TcpTransportTest, StrangersOnThePortChangeNothing) {
  support::RankGroup group(3, "tcp");
  Rng rng(31);
  std::vector<Descriptor> strangers;
  for (int32_t rank = 0; rank < 3; ++rank) {
    strangers.push_back(intrude(group.transport(Rank{rank}), "GET / HTTP/1.1\r\n\r\n"));
    strangers.push_back(intrude(group.transport(Rank{rank}), ""));
    strangers.push_back(intrude(group.transport(Rank{rank}), "PLEACH1\n"));
    // Of the job, but with a claim that makes no sense here.
    const Claim good = claim_of(group.transport(Rank{rank}), Rank{rank}, 2, 3);
    std::vector<Claim> claims(4, good);
    claims[0].meeting += 1;
    claims[1].rank = rank;
    claims[2].rank = -1;
    claims[3].rank = 3;
    for (const Claim& claim : claims) {
      strangers.push_back(intrude(group.transport(Rank{rank}), ""));
      support::be_let_in(group.transport(Rank{rank}), strangers.back().get(),
                         group.store().secret(), claim);
    }
    for (int i = 0; i < 30; ++i) {
      std::string noise;
      for (uint64_t k = rng.below(80); k > 0; --k) {
        noise += static_cast<char>(rng.below(256));
      }
      strangers.push_back(intrude(group.transport(Rank{rank}), noise));
    }
  }
  support::on_every_rank(3, [&](Rank rank) {
    for (int operation = 1; operation <= 3; ++operation) {
      const Status status = run_ring(group, rank, seconds(10));
      ASSERT_TRUE(status.has_value()) << status.error().message;
    }
  });
}

// Rank 2 is a program of its own that says hello well and then lies to rank 0.
TEST(TcpTransportTest, RankThatBreaksTheProtocolIsNamed) {
  using tcp::Frame;
  using tcp::FrameKind;
  const Frame begin{.kind = FrameKind::kBegin, .channel = 1, .operation = 1};
  struct Case {
    std::string name;
    std::vector<Frame> frames;
    std::string tail;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"noise", {begin}, std::string(40, 'x'), "broke the transport's protocol"},
      {"too long",
       {{.kind = FrameKind::kData, .length = UINT32_MAX, .channel = 1, .operation = 1}},
       "",
       "broke the transport's protocol"},
      {"no such channel",
       {{.kind = FrameKind::kData, .length = 4, .channel = 7, .operation = 1}},
       "",
       "broke the transport's protocol"},
      {"more than there are places",
       std::vector<Frame>(5, {.kind = FrameKind::kData, .channel = 1, .operation = 2}), "",
       "broke the transport's protocol"},
      {"an operation that is over",
       {begin, {.kind = FrameKind::kData, .channel = 1}},
       "",
       "sent a segment of operation 0, which is over"},
      {"a place that it does not hold",
       {{.kind = FrameKind::kRelease, .channel = 1, .operation = 1}},
       "",
       "released a landing place that it did not hold"},
      {"payload of a begin",
       {{.kind = FrameKind::kBegin, .length = 9, .channel = 1, .operation = 1}},
       "",
       "broke the transport's protocol"},
      {"another request",
       {{.kind = FrameKind::kBegin, .channel = 1, .operation = 1, .fingerprint = 8}},
       "",
       " runs what is unknown here, "},
      {"unknown stream",
       {begin, {.kind = FrameKind::kData, .channel = 1, .operation = 1, .stream = 99}},
       "",
       "does not belong to the schedule"},
      {"hangs up", {begin}, "", "its connection closed"},
  };
  for (const Case& row : cases) {
    SCOPED_TRACE(row.name);
    support::RankGroup group(3, "tcp");
    std::string words;
    for (const Frame& frame : row.frames) {
      words += text(tcp::write_frame(frame));
    }
    {
      const Descriptor liar = pose_as_rank_2(group);
      say(liar, words + row.tail);
      if (row.name == "hangs up") {
        shutdown(liar.get(), SHUT_WR);
      }
      support::on_every_rank(2, [&](Rank rank) {
        const Status status = run_ring(group, rank, seconds(10));
        ASSERT_FALSE(status.has_value());
        EXPECT_NE(status.error().message.find("rank 2"), std::string::npos)
            << status.error().message;
        EXPECT_NE(status.error().message.find(row.says), std::string::npos)
            << status.error().message;
      });
    }
    EXPECT_EQ(group.store().failure()->rank, Rank{2});
  }
}

// Rank 2 is a program of its own that says anything.
TEST(TcpTransportTest, WhateverAMemberSaysItIsNamed) {
  for (int round = 0; round < support::repeated(8); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<uint64_t>(round));
    support::RankGroup group(3, "tcp");
    const Descriptor liar = pose_as_rank_2(group);
    std::string words;
    for (uint64_t left = rng.below(20); left > 0; --left) {
      const auto length = static_cast<uint32_t>(rng.below(8) == 0 ? rng.next() : rng.below(500));
      std::string frame(
          text(tcp::write_frame({.kind = static_cast<tcp::FrameKind>(1 + rng.below(3)),
                                 .length = rng.below(2) == 0 ? 0 : length,
                                 .channel = rng.below(6) == 0 ? rng.next() : 1,
                                 .operation = rng.below(4),
                                 .fingerprint = rng.below(6) == 0 ? rng.next() : 0,
                                 .stream = static_cast<int32_t>(rng.below(9)) - 1,
                                 .segment = static_cast<int32_t>(rng.below(3)) - 1})));
      frame += std::string(std::min<std::size_t>(length, 500), 'x');
      if (rng.below(6) == 0) {
        frame[rng.below(frame.size())] ^= static_cast<char>(1 + rng.below(255));
      }
      words += frame;
    }
    say(liar, words);
    if (round % 2 == 0) {
      shutdown(liar.get(), SHUT_WR);
    }
    support::on_every_rank(2, [&](Rank rank) {
      const Status status = run_ring(group, rank, seconds(3));
      ASSERT_FALSE(status.has_value());
      EXPECT_NE(status.error().message.find("rank 2"), std::string::npos) << status.error().message;
    });
  }
}

// What a peer writes on each of its sockets to send those segments, which are of channel 5.
std::vector<std::string> lanes_of(const std::vector<uint32_t>& lengths, std::size_t lane_count) {
  std::vector<std::string> lanes(lane_count);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lanes[0] += text(tcp::write_frame({.kind = tcp::FrameKind::kData,
                                       .length = lengths[i],
                                       .channel = 5,
                                       .operation = i + 1,
                                       .stream = 7}));
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const tcp::Stripe part = tcp::stripe(lengths[i], lane, lane_count);
      for (std::size_t at = part.begin; at < part.end; ++at) {
        lanes[lane] += static_cast<char>(at * 7 + i);
      }
    }
  }
  return lanes;
}

void expect_segment(const TransportEvent& event, std::size_t number, uint32_t length) {
  ASSERT_EQ(event.kind, TransportEvent::Kind::kArrived);
  ASSERT_EQ(event.tag, (SegmentTag{.operation = number + 1, .stream = 7}));
  ASSERT_EQ(event.payload.size(), length);
  for (std::size_t at = 0; at < length; ++at) {
    ASSERT_EQ(event.payload[at], static_cast<std::byte>(at * 7 + number)) << number << " " << at;
  }
}

// A header may come in two reads, and one read may bring many frames and the beginning of another;
// each of several sockets may be ahead of the others.
TEST(TcpTransportTest, FramesArriveInOrderHoweverTheyAreCut) {
  Rng rng(12);
  for (int round = 0; round < 30; ++round) {
    const std::size_t lane_count = round % 3 == 0 ? 1 : 1 + rng.below(4);
    SCOPED_TRACE(std::to_string(round) + " " + std::to_string(lane_count));
    std::vector<uint32_t> lengths;
    for (uint64_t i = 1; i <= 30; ++i) {
      lengths.push_back(static_cast<uint32_t>(i * i * 97 % 40'000 * (lane_count > 1 ? 4 : 1)));
    }
    std::vector<std::string> words = lanes_of(lengths, lane_count);
    support::RankGroup group(3, "tcp,sockets=" + std::to_string(lane_count));
    Transport& transport = group.transport(Rank{0});
    ASSERT_TRUE(transport.open({.number = 5, .places = 30, .place_bytes = 160'000}));
    std::vector<Descriptor> lanes;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      lanes.push_back(pose_as_rank_2(group, static_cast<uint16_t>(lane)));
    }
    std::vector<std::size_t> sent(lane_count);
    std::vector<TransportEvent> arrived;
    const auto is_all_said = [&] {
      for (std::size_t lane = 0; lane < lane_count; ++lane) {
        if (sent[lane] < words[lane].size()) {
          return false;
        }
      }
      return true;
    };
    const TimePoint until = SteadyClock().now() + seconds(60);
    while (arrived.size() < lengths.size() && SteadyClock().now() < until) {
      const std::size_t lane = rng.below(lane_count);
      const std::size_t part = std::min(words[lane].size() - sent[lane],
                                        at(1 + rng.below(round % 2 == 0 ? 600 : 60'000)));
      const ssize_t taken =
          ::send(lanes[lane].get(), words[lane].data() + sent[lane], part, MSG_DONTWAIT);
      sent[lane] += at(std::max<ssize_t>(taken, 0));
      const TimePoint now = SteadyClock().now();
      for (const TransportEvent& event : poll(transport, is_all_said() ? now + seconds(5) : now)) {
        arrived.push_back(event);
      }
    }
    ASSERT_EQ(arrived.size(), lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      expect_segment(arrived[i], i, lengths[i]);
    }
  }
}

// Of what is sent to a channel that is closed, each socket carries a part, and all of it is
// dropped.
TEST(TcpTransportTest, PartsForAClosedChannelAreDropped) {
  support::RankGroup group(3, "tcp,sockets=3");
  Transport& transport = group.transport(Rank{0});
  ASSERT_TRUE(transport.open({.number = 5, .places = 4, .place_bytes = 200'000}));
  ASSERT_TRUE(transport.open({.number = 6, .places = 4, .place_bytes = 200'000}));
  std::vector<Descriptor> lanes;
  for (uint16_t lane = 0; lane < 3; ++lane) {
    lanes.push_back(pose_as_rank_2(group, lane));
  }
  transport.close(5);
  std::vector<std::string> words = lanes_of({150'000, 3, 66'000}, 3);
  words[0] += text(tcp::write_frame({.kind = tcp::FrameKind::kBegin, .channel = 6}));
  for (const std::size_t lane : {0U, 2U, 1U}) {
    EXPECT_TRUE(poll(transport, SteadyClock().now() + milliseconds(10)).empty());
    say(lanes[lane], words[lane]);
  }
  const std::vector<TransportEvent> events = await_events(transport);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, TransportEvent::Kind::kBegun);
}

// The rest of a segment that has begun to come when its channel is closed is dropped too, however
// much of it is here on each socket.
TEST(TcpTransportTest, RestOfASegmentForAClosedChannelIsDropped) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    const std::size_t lane_count = 1 + static_cast<std::size_t>(round) % 3;
    SCOPED_TRACE(round);
    support::RankGroup group(3, "tcp,sockets=" + std::to_string(lane_count));
    Transport& transport = group.transport(Rank{0});
    ASSERT_TRUE(transport.open({.number = 5, .places = 4, .place_bytes = 400'000}));
    ASSERT_TRUE(transport.open({.number = 6, .places = 4, .place_bytes = 400'000}));
    std::vector<Descriptor> lanes;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      lanes.push_back(pose_as_rank_2(group, static_cast<uint16_t>(lane)));
    }
    std::vector<std::string> words = lanes_of({400'000}, lane_count);
    uint64_t sent = 0;
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      const uint64_t least = lane == 0 ? sizeof(tcp::FrameBytes) : 0;
      // All of it on some, but never on all.
      const uint64_t most = words[lane].size() - (lane == 0 ? 1 : 0);
      const uint64_t count = rng.below(3) == 0 ? most : least + rng.below(most - least);
      say(lanes[lane], words[lane].substr(0, count));
      words[lane].erase(0, count);
      sent += count;
    }
    while (transport.moved_bytes() < sent) {
      ASSERT_TRUE(poll(transport, SteadyClock().now() + milliseconds(10)).empty());
    }
    transport.close(5);
    words[0] += text(tcp::write_frame({.kind = tcp::FrameKind::kBegin, .channel = 6}));
    for (std::size_t lane = 0; lane < lane_count; ++lane) {
      say(lanes[lane], words[lane]);
    }
    const std::vector<TransportEvent> events = await_events(transport);
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].kind, TransportEvent::Kind::kBegun);
  }
}

// Any of its sockets loses the peer, when it is needed next.
TEST(TcpTransportTest, PeerWithoutOneOfItsSocketsIsLost) {
  for (const bool receives : {false, true}) {
    for (uint16_t gone = 0; gone < 3; ++gone) {
      SCOPED_TRACE(std::to_string(gone) + (receives ? " receives" : " sends"));
      support::RankGroup group(3, "tcp,sockets=3");
      Transport& transport = group.transport(Rank{0});
      ASSERT_TRUE(transport.open({.number = 5, .places = 1, .place_bytes = 20'000'000}));
      std::vector<Descriptor> lanes;
      for (uint16_t lane = 0; lane < 3; ++lane) {
        lanes.push_back(pose_as_rank_2(group, lane));
      }
      const std::vector<std::string> words = lanes_of({100'000}, 3);
      for (uint16_t lane = 0; receives && lane < 3; ++lane) {
        say(lanes[lane], words[lane].substr(0, words[lane].size() - (lane == gone ? 1 : 0)));
      }
      lanes[gone].close();
      const std::vector<std::byte> data(20'000'000);
      const std::array pieces = {std::span(data)};
      if (!receives) {
        EXPECT_FALSE(transport.send(Rank{2}, 5, {.operation = 1}, 0, pieces).value());
      }
      const std::vector<TransportEvent> events = await_events(transport);
      ASSERT_EQ(events.size(), 1U);
      EXPECT_EQ(events[0].kind, TransportEvent::Kind::kLost);
      EXPECT_EQ(events[0].peer, Rank{2});
    }
  }
}

TEST(TcpTransportTest, RanksAgreeOnHowManySocketsThereAre) {
  const std::shared_ptr<Store> store = make_local_store();
  const SteadyClock clock;
  std::vector<std::unique_ptr<Transport>> ranks;
  for (int32_t rank = 0; rank < 2; ++rank) {
    ranks.push_back(
        create_transport(rank == 0 ? "tcp,sockets=2" : "tcp,sockets=1", {.rank = Rank{rank},
                                                                         .rank_count = 2,
                                                                         .store = store,
                                                                         .epoch = store->epoch(),
                                                                         .clock = &clock,
                                                                         .key_prefix = "test"})
            .value());
  }
  EXPECT_EQ(ranks[1]->introduce(Rank{0}, ranks[0]->address()).error().message,
            "rank 1 has sockets=1, rank 0 has sockets=2 (PLEACH_SOCKETS)");
  EXPECT_EQ(create_transport("tcp,sockets=17", {}).error().message,
            "transport tcp: option 'sockets': value '17' is outside 1 to 16");
  EXPECT_EQ(create_transport("tcp,sockets=0", {}).error().message,
            "transport tcp: option 'sockets': value '0' is outside 1 to 16");
}

// However many say nothing, or half of it, a rank gets in, and so do those after it.
TEST(TcpTransportTest, FloodsOfStrangersKeepNobodyOut) {
  constexpr int32_t kRanks = 5;
  support::RankGroup group(kRanks, "tcp");
  Transport& transport = group.transport(Rank{0});
  std::vector<Descriptor> connected;
  std::vector<Introduction> claimed;
  const auto flood = [&] {
    for (int i = 0; i < 300; ++i) {
      connected.push_back(intrude(group.transport(Rank{0}), i % 3 == 0 ? "PLEACH2\n" : ""));
      if (i % 3 == 1) {  // says that it is rank 4, and does not know the secret
        claimed.emplace_back(JobSecret::make(),
                             claim_of(group.transport(Rank{0}), Rank{0}, 4, kRanks));
        claimed.back().advance(connected.back().get());
      }
    }
  };
  std::vector<TransportEvent> events;
  for (int32_t rank = 1; rank < kRanks; ++rank) {
    flood();
    connected.push_back(intrude(group.transport(Rank{0}), ""));
    for (const TransportEvent& event :
         support::be_let_in(transport, connected.back().get(), group.store().secret(),
                            claim_of(group.transport(Rank{0}), Rank{0}, rank, kRanks))) {
      events.push_back(event);
    }
    flood();
    say(connected[at(rank) * 601 - 301],
        text(tcp::write_frame({.kind = tcp::FrameKind::kBegin, .channel = 1, .operation = 1})));
  }
  const TimePoint last = SteadyClock().now() + seconds(10);
  while (events.size() < at(kRanks - 1) && SteadyClock().now() < last) {
    for (const TransportEvent& event : poll(transport, last)) {
      events.push_back(event);
    }
  }
  ASSERT_EQ(events.size(), at(kRanks - 1));
  for (const TransportEvent& event : events) {
    EXPECT_EQ(event.kind, TransportEvent::Kind::kBegun);
  }
}

TEST(TcpTransportTest, FramesSurviveTheRoundTripAndNothingElseParses) {
  const tcp::Frame frame{.kind = tcp::FrameKind::kRelease,
                         .length = 11,
                         .channel = 3,
                         .operation = 1ull << 40,
                         .fingerprint = 5,
                         .stream = 7,
                         .segment = 9};
  const auto parsed = tcp::parse_frame(tcp::write_frame(frame));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(tcp::write_frame(*parsed), tcp::write_frame(frame));
  for (const std::size_t at : {0u, 1u, 2u, 3u}) {
    tcp::FrameBytes bytes = tcp::write_frame(frame);
    bytes[at] ^= std::byte{0x80};
    EXPECT_FALSE(tcp::parse_frame(bytes).has_value());
  }
}

}  // namespace
}  // namespace pleach
