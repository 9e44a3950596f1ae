// Sets of byte ranges against sets of single bytes, and their edges by hand.
#include "pleach/policy/byte_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "pleach/base/rng.h"

namespace pleach {
namespace {

TEST(ByteSet, OfNothingCoversNothingButEmptyRanges) {
  const ByteSet set;
  EXPECT_TRUE(set.covers({3, 3}));
  EXPECT_FALSE(set.meets({3, 3}));
  EXPECT_FALSE(set.covers({3, 4}));
  EXPECT_FALSE(set.meets({0, 100}));
}

TEST(ByteSet, JoinsRangesThatTouchAndSplitsThem) {
  ByteSet set;
  set.add({0, 10});
  set.add({20, 30});
  EXPECT_FALSE(set.covers({0, 30}));
  set.add({10, 20});
  EXPECT_TRUE(set.covers({0, 30}));
  set.remove({12, 18});
  EXPECT_TRUE(set.covers({0, 12}));
  EXPECT_TRUE(set.covers({18, 30}));
  EXPECT_FALSE(set.meets({12, 18}));
  EXPECT_TRUE(set.meets({11, 13}));
  EXPECT_FALSE(set.covers({11, 13}));
  set.remove({0, 100});
  EXPECT_FALSE(set.meets({0, 100}));
}

TEST(ByteSet, AgreesWithASetOfBytes) {
  int covered = 0;
  int met = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    ByteSet set;
    std::set<int64_t> bytes;
    for (int step = 0; step < 200; ++step) {
      const auto begin = static_cast<int64_t>(rng.below(60));
      const ByteRange range{begin, begin + static_cast<int64_t>(rng.below(12))};
      const uint64_t what = rng.below(4);
      what == 0 ? set.add(range) : what == 1 ? set.remove(range) : void();
      int64_t present = 0;
      for (int64_t byte = range.begin; byte < range.end; ++byte) {
        if (what == 0) {
          bytes.insert(byte);
        } else if (what == 1) {
          bytes.erase(byte);
        }
        present += bytes.contains(byte) ? 1 : 0;
      }
      EXPECT_EQ(set.covers(range), present == range.size());
      EXPECT_EQ(set.meets(range), present > 0);
      covered += what > 1 && range.size() > 0 && present == range.size() ? 1 : 0;
      met += what > 1 && present > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(covered, 500);
  EXPECT_GT(met, covered);
}

}  // namespace
}  // namespace pleach
