#include "pleach/runtime/transports/shm_peer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "pleach/base/rng.h"

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

TEST(CopySpeedTest, IsSlowAfterSomeSlowCopiesAndTriesAgain) {
  CopySpeed copies;
  for (int i = 0; i < 3; ++i) {
    copies.note(40'000, std::chrono::microseconds(11));
    EXPECT_FALSE(copies.is_slow());
  }
  copies.note(40'000, std::chrono::microseconds(9));  // one that is not
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(copies.is_slow());
    copies.note(40'000, std::chrono::microseconds(11));
  }
  int tried = 0;
  for (int i = 0; i < 640; ++i) {
    tried += copies.is_slow() ? 0 : 1;
  }
  EXPECT_EQ(tried, 10);
  copies.note(40'000, std::chrono::microseconds(1));
  EXPECT_FALSE(copies.is_slow());
}

}  // namespace
}  // namespace pleach::shm
