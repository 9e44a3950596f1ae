#include "pleach/runtime/outbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/runtime/peer_memory.h"

namespace pleach {
namespace {

std::vector<std::byte> value_of(uint64_t number, int64_t bytes) {
  return std::vector<std::byte>(at(bytes), static_cast<std::byte>(number));
}

TEST(OutboxTest, CopiesAValueOnceAndKeepsItForAllItsReaders) {
  Outbox outbox(2);
  const Outbox::Key key{.run = &outbox, .slot = 3, .after_commits = 1, .segment = 2};
  const auto first = outbox.put(key, value_of(1, 5000), 2, false);
  ASSERT_EQ(first.size(), 5000U);
  EXPECT_NE(find_peer_region(first), nullptr);
  // What is given again is not looked at.
  EXPECT_EQ(outbox.put(key, value_of(2, 5000), 9, false).data(), first.data());
  EXPECT_EQ(first.back(), std::byte{1});
  outbox.release(key);
  EXPECT_EQ(outbox.put(key, value_of(2, 5000), 9, false).data(), first.data());
  outbox.release(key);
  const auto second = outbox.put(key, value_of(3, 5000), 1, true);
  EXPECT_NE(second.data(), first.data());
  EXPECT_EQ(second.front(), std::byte{3});
  EXPECT_EQ(first.back(), std::byte{1});
}

// Whatever is put and released in whatever order: copies are apart, or there is no room.
TEST(OutboxTest, HasRoomAgainOnceWhatIsThereHasBeenRead) {
  for (const int32_t ranks : {2, 5, 1000}) {
    Outbox outbox(ranks);
    Rng rng(at(ranks));
    struct Held {
      Outbox::Key key;
      std::span<const std::byte> bytes;
      int32_t readers;
    };
    std::vector<Held> held;
    int refused = 0;
    for (int32_t round = 0; round < 600; ++round) {
      if (held.empty() || rng.below(2) == 0) {
        const Outbox::Key key{.run = &rng, .slot = round};
        const auto readers = static_cast<int32_t>(1 + rng.below(3));
        const auto bytes = static_cast<int64_t>(1 + rng.below(300'000));
        const auto copy = outbox.put(key, value_of(at(round), bytes), readers, rng.below(2) == 0);
        refused += copy.empty() ? 1 : 0;
        if (!copy.empty()) {
          held.push_back({key, copy, readers});
        }
        continue;
      }
      const auto one = held.begin() + static_cast<int>(rng.below(held.size()));
      outbox.release(one->key);
      if (--one->readers == 0) {
        held.erase(one);
      }
      for (const Held& other : held) {
        ASSERT_EQ(other.bytes.front(), static_cast<std::byte>(other.key.slot));
        ASSERT_EQ(other.bytes.back(), static_cast<std::byte>(other.key.slot));
      }
    }
    EXPECT_LT(refused, 300);
    outbox.drop(&rng);
    EXPECT_FALSE(outbox.put({.run = &rng}, value_of(1, 1 << 20), 1, false).empty());
    EXPECT_TRUE(outbox.put({.run = &rng, .slot = 1}, value_of(1, 17 << 20), 1, false).empty());
  }
}

}  // namespace
}  // namespace pleach
