#include "pleach/runtime/scratch_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "tests/support/counting_allocator.h"

namespace pleach {
namespace {

TEST(ScratchBlocks, OfNothingIsNothing) {
  ScratchBlocks blocks;
  const ScratchBlocks::Block none = blocks.take(0);
  EXPECT_EQ(none.bytes, nullptr);
  EXPECT_EQ(none.size_bytes, 0);
}

TEST(ScratchBlocks, GivesTheSmallestThatIsLargeEnough) {
  ScratchBlocks blocks;
  ScratchBlocks::Block small = blocks.take(10);
  ScratchBlocks::Block large = blocks.take(1000);
  const std::byte* const small_bytes = small.bytes.get();
  const std::byte* const large_bytes = large.bytes.get();
  blocks.give_back(std::move(large));
  blocks.give_back(std::move(small));
  const ScratchBlocks::Block first = blocks.take(7);
  const ScratchBlocks::Block second = blocks.take(7);
  EXPECT_EQ(first.bytes.get(), small_bytes);
  EXPECT_EQ(second.bytes.get(), large_bytes);
  EXPECT_EQ(second.size_bytes, 1000);
}

// What was too small does not stay beside what took its place.
TEST(ScratchBlocks, HoldsNoMoreBlocksThanWereInUseAtOnce) {
  ScratchBlocks blocks;
  for (const int64_t size_bytes : {1, 5, 3, 100, 50, 1000}) {
    ScratchBlocks::Block one = blocks.take(size_bytes);
    ScratchBlocks::Block two = blocks.take(size_bytes);
    std::memset(one.bytes.get(), 1, static_cast<std::size_t>(size_bytes));
    std::memset(two.bytes.get(), 2, static_cast<std::size_t>(size_bytes));
    blocks.give_back(std::move(one));
    blocks.give_back(std::move(two));
  }
  EXPECT_EQ(blocks.take(1).size_bytes, 1000);
  const ScratchBlocks::Block other = blocks.take(1);
  EXPECT_EQ(other.size_bytes, 1000);
}

TEST(ScratchBlocks, AllocatesNothingThatItHas) {
  ScratchBlocks blocks;
  ScratchBlocks::Block one = blocks.take(4096);
  blocks.give_back(std::move(one));
  const int64_t before = support::allocations;
  for (int turn = 0; turn < 100; ++turn) {
    ScratchBlocks::Block again = blocks.take(turn + 1);
    blocks.give_back(std::move(again));
  }
  EXPECT_EQ(support::allocations, before);
}

}  // namespace
}  // namespace pleach
