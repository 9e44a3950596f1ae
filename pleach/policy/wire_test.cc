// What a channel of one and of several collectives carries, and what it notes of them.
#include "pleach/policy/wire.h"

#include <gtest/gtest.h>

#include <vector>

namespace pleach {
namespace {

using Kind = CollectiveKind;

HostedCollective of(Kind kind, ByteRange range, int32_t iteration = 0) {
  return {.what = {kind, range}, .iteration = iteration};
}

// The numbers of all that start now.
std::vector<int32_t> started(Wire& wire, int64_t now_ps) {
  std::vector<int32_t> numbers;
  for (const HostedCollective& one : wire.start(now_ps)) {
    EXPECT_EQ(one.started_ps, now_ps);
    EXPECT_EQ(one.finished_ps, -1);
    numbers.push_back(one.number);
  }
  return numbers;
}

using Numbers = std::vector<int32_t>;

TEST(Wire, CarriesAsManyAsItIsWideInOrder) {
  for (const int32_t width : {1, 2, 5}) {
    SCOPED_TRACE(width);
    Wire wire(width);
    EXPECT_EQ(started(wire, 0), Numbers{});
    for (int64_t index = 0; index < 4; ++index) {
      wire.issue(of(Kind::kAllReduce, {index, index + 1}));
    }
    EXPECT_EQ(started(wire, 1), width == 1   ? Numbers{0}
                                : width == 2 ? (Numbers{0, 1})
                                             : (Numbers{0, 1, 2, 3}));
    const int32_t last = width == 5 ? 3 : width - 1;
    EXPECT_EQ(wire.carried(last).what.range, (ByteRange{last, last + 1}));
    EXPECT_EQ(wire.finish(last, 2).finished_ps, 2);  // before those that started earlier
    EXPECT_EQ(started(wire, 2), width == 5 ? Numbers{} : Numbers{width});
  }
}

// Computation stands still from 10 to 20 and from 30 on.
TEST(Wire, ExposesWhatItCarriesWhileComputationStandsStill) {
  Wire wire(3);
  for (int64_t index = 0; index < 5; ++index) {
    wire.issue(of(Kind::kAllReduce, {index, index + 1}));
  }
  EXPECT_EQ(started(wire, 5), (Numbers{0, 1, 2}));
  EXPECT_EQ(wire.finish(1, 8).exposed_ps, 0);
  EXPECT_EQ(started(wire, 8), Numbers{3});
  wire.stand_still(10);
  wire.stand_still(12);  // it does already
  EXPECT_EQ(wire.finish(0, 15).exposed_ps, 5);
  EXPECT_EQ(started(wire, 15), Numbers{4});
  wire.go_on(20);
  wire.go_on(25);
  wire.stand_still(30);
  EXPECT_EQ(wire.finish(4, 32).exposed_ps, 5 + 2);
  EXPECT_EQ(wire.finish(3, 35).exposed_ps, 10 + 5);
  EXPECT_EQ(wire.finish(2, 36).exposed_ps, 10 + 6);
}

TEST(Wire, KnowsWhenReducedBytesWereUsed) {
  Wire wire(2);
  wire.issue(of(Kind::kReduceScatter, {4, 10}));
  wire.issue(of(Kind::kAllReduce, {0, 4}));
  EXPECT_EQ(started(wire, 0), (Numbers{0, 1}));
  wire.finish(1, 7);
  wire.update(1, 7);
  wire.finish(0, 8);
  wire.update(0, 9);
  wire.issue(of(Kind::kAllGather, {0, 10}));
  EXPECT_EQ(started(wire, 10), Numbers{2});
  wire.finish(2, 20);
  EXPECT_EQ(wire.reduced_ps({0, 4}), 7);
  EXPECT_EQ(wire.reduced_ps({5, 6}), 9);
  EXPECT_EQ(wire.reduced_ps({0, 10}), 9);
  // An iteration later the last reductions count.
  wire.issue(of(Kind::kReduceScatter, {0, 10}, 1));
  EXPECT_EQ(started(wire, 30), Numbers{3});
  wire.finish(3, 39);
  wire.update(3, 40);
  EXPECT_EQ(wire.reduced_ps({0, 4}), 40);
}

TEST(Wire, ForgetsWhatIsOverAndOld) {
  Wire wire(2);
  for (int32_t iteration = 0; iteration < 4; ++iteration) {
    wire.issue(of(Kind::kAllReduce, {0, 1}, iteration));
  }
  EXPECT_EQ(started(wire, 0), (Numbers{0, 1}));
  wire.finish(1, 1);
  EXPECT_EQ(started(wire, 1), Numbers{2});
  wire.forget_before(2);  // the first is still on the wire
  EXPECT_EQ(wire.log().size(), 3U);
  wire.finish(0, 2);
  wire.update(0, 2);
  wire.forget_before(2);  // the second is not used yet
  EXPECT_EQ(wire.log().size(), 2U);
  wire.drop_reductions();
  wire.forget_before(2);
  ASSERT_EQ(wire.log().size(), 1U);
  EXPECT_EQ(wire.log().front().number, 2);
  EXPECT_EQ(wire.find(1), nullptr);
  EXPECT_EQ(wire.find(2)->number, 2);
  EXPECT_EQ(wire.find(3), nullptr);
  EXPECT_EQ(wire.finish(2, 3).finished_ps, 3);
  EXPECT_EQ(started(wire, 3), Numbers{3});
}

}  // namespace
}  // namespace pleach
