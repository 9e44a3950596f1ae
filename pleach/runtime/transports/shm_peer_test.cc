#include "pleach/runtime/transports/shm_peer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pleach/base/rng.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/peer_memory.h"

namespace pleach::shm {
namespace {

// Whatever is taken and released in whatever order: segments lie in the area, apart.
TEST(PeerChannelTest, SegmentsOfAnySizeFindRoom) {
  for (const int64_t place_bytes : {1, 100, 16'384, 100'000, 262'144}) {
    for (const int32_t places : {1, 2, 3, 64}) {
      for (const int32_t ranks : {2, 9}) {
        SCOPED_TRACE(std::to_string(places) + " places of " + std::to_string(place_bytes));
        const ChannelOptions options{.places = places, .place_bytes = place_bytes};
        const int64_t total = area_bytes(options) * ranks;
        const ChannelEntry entry = {};
        PeerChannel channel(options, entry, SharedMemory::create(total)->map(0, total).value(),
                            Rank{1}, ranks);
        Rng rng(static_cast<uint64_t>(place_bytes + places));
        std::map<int32_t, std::pair<int64_t, int64_t>> held;  // bytes of the area, by place
        for (uint64_t round = 0; round < 2000; ++round) {
          if (channel.has_place() && (held.empty() || rng.below(5) < 3)) {
            const auto bytes = static_cast<int64_t>(
                rng.below(3) == 0 ? at(place_bytes) : rng.below(at(place_bytes) + 1));
            const int32_t place = channel.take({.operation = round}, bytes);
            const int64_t begin = channel.offset(place);
            ASSERT_EQ(begin % static_cast<int64_t>(kLine), 0);
            ASSERT_LE(begin + bytes, area_bytes(options));
            for (const auto& [other, range] : held) {
              ASSERT_NE(other, place);
              ASSERT_TRUE(begin + bytes <= range.first || range.second <= begin) << round;
            }
            held[place] = {begin, begin + bytes};
          } else {
            const auto gone = std::next(held.begin(), static_cast<int>(rng.below(held.size())));
            ASSERT_TRUE(channel.release(gone->first).has_value());
            ASSERT_FALSE(channel.release(gone->first).has_value());
            held.erase(gone);
          }
          ASSERT_EQ(channel.has_place(), std::ssize(held) < places);
        }
        EXPECT_FALSE(channel.release(64).has_value());
      }
    }
  }
}

// A peer that does not listen is rung in vain, and one that has left, too.
TEST(RegionExchangeTest, WhoeverIsRungHoldsUpNobody) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor own(ends[0]);
  Descriptor others(ends[1]);
  ASSERT_TRUE(set_nonblocking(others.get()));
  const auto shared = allocate_peer_memory(100).value();
  const auto region = find_peer_region({shared.get(), 100});
  RegionExchange teller;
  RegionExchange hearer;
  ring(own.get());
  ASSERT_TRUE(teller.tell_of(own.get(), region));
  for (int i = 0; i < 10'000; ++i) {
    ring(own.get());
  }
  EXPECT_TRUE(hearer.take_offers(others.get()));
  EXPECT_NE(hearer.find(region->number, 0, 100), nullptr);
  EXPECT_FALSE(wait_ready(others.get(), POLLIN, TimePoint::min()));
  others.close();
  ring(own.get());
}

TEST(DistanceTest, IsFarWhereWritesTakeLongAndNotBecauseOfAFew) {
  using std::chrono::nanoseconds;
  Distance distance;
  int due = 0;
  for (int i = 0; i < 130; ++i) {
    due += distance.is_due() ? 1 : 0;
  }
  EXPECT_EQ(due, 10);
  EXPECT_FALSE(distance.is_far());
  for (int i = 0; i < 100; ++i) {  // of a near peer, and interrupted now and then
    distance.note(i % 10 == 0 ? nanoseconds(1'000'000) : nanoseconds(60));
    EXPECT_FALSE(distance.is_far()) << i;
  }
  for (int i = 0; i < 20; ++i) {
    distance.note(nanoseconds(170));
  }
  EXPECT_TRUE(distance.is_far());
  for (int i = 0; i < 100; ++i) {  // of far peers and of one that has the same core
    distance.note(nanoseconds(i % 2 == 0 ? 30 : 170));
    EXPECT_TRUE(distance.is_far()) << i;
  }
  for (int i = 0; i < 50; ++i) {
    distance.note(nanoseconds(60));
  }
  EXPECT_FALSE(distance.is_far());
}

}  // namespace
}  // namespace pleach::shm
