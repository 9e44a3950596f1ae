#include "pleach/network/ready_sends.h"

#include <gtest/gtest.h>

#include <set>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(ReadySends, GiveTheSmallestFirst) {
  Rng rng(3);
  ReadySends ready;
  std::set<Send> expected;
  int32_t pops = 0, stream = 0;
  for (int32_t step = 0; step < 10'000; ++step) {
    if (expected.empty() || rng.below(2) == 0) {
      const Send send = {static_cast<int64_t>(rng.below(20)), 0, stream++, 0};
      ready.push(send);
      expected.insert(send);
    } else {
      ASSERT_EQ(ready.top(), *expected.begin());
      ASSERT_EQ(ready.pop(), *expected.begin());
      expected.erase(expected.begin());
      ++pops;
    }
    ASSERT_EQ(ready.empty(), expected.empty());
  }
  EXPECT_GT(pops, 4'000);
}

}  // namespace
}  // namespace pleach
