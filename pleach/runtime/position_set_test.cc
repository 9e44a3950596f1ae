#include "pleach/runtime/position_set.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(PositionSet, IsAnOrderedSet) {
  for (const std::size_t size : {1UL, 2UL, 63UL, 64UL, 65UL, 4096UL, 4097UL, 300'000UL}) {
    SCOPED_TRACE("size " + std::to_string(size));
    Rng rng(size);
    PositionSet positions(size);
    std::set<int32_t> expected;
    EXPECT_TRUE(positions.empty());
    for (int32_t round = 0; round < 5000; ++round) {
      const auto position = static_cast<int32_t>(rng.below(size));
      switch (rng.below(5)) {
        case 0:
        case 1:
          positions.insert(position);
          expected.insert(position);
          break;
        case 2:
          positions.erase(position);
          expected.erase(position);
          break;
        case 3:
          if (!expected.empty()) {
            positions.erase(positions.front());
            expected.erase(expected.begin());
          }
          break;
        default:
          if (rng.below(500) == 0) {
            positions.clear();
            expected.clear();
          }
      }
      ASSERT_EQ(positions.empty(), expected.empty());
      if (!expected.empty()) {
        ASSERT_EQ(positions.front(), *expected.begin());
      }
    }
  }
}

TEST(PositionSet, OfNothingIsEmpty) {
  PositionSet nothing(0);
  EXPECT_TRUE(nothing.empty());
  nothing.clear();
  EXPECT_TRUE(nothing.empty());
}

}  // namespace
}  // namespace pleach
