#include "pleach/network/landing_places.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/network/schedule_forms.h"
#include "pleach/topology/shapes.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

using support::kCopy;

// Rank 0 sends chunks 0, 1 and 2 to rank 1, one a step: streams 0, 1, 2 of one connection.
class ThreeSends : public ::testing::Test {
 protected:
  void SetUp() override {
    auto topology = parse_topology("fully_connected:2");
    ASSERT_TRUE(topology);
    const SimulationOptions options;
    const auto forms = ScheduleForms::create(*topology, borrowed(schedule_), options);
    ASSERT_TRUE(forms) << forms.error().message;
    const auto job = (*forms)->whole(300);
    ASSERT_TRUE(job);
    lowered_ = job->shared_schedule();
  }
  Send send(int32_t stream) const { return lowered_->send(stream, 0, 0); }
  Arrival arrival(int32_t stream, int32_t chunk = 0) const {
    return {lowered_->order().first_commit(stream) + chunk, 0, 0};
  }
  std::vector<bool> admits(const LandingPlaces& places) const {
    return {places.admits(send(0)), places.admits(send(1)), places.admits(send(2))};
  }

  const Schedule schedule_ = support::make_schedule(
      {.collective = CollectiveKind::kBroadcast, .chunk_count = 4},
      {{0, 2, 0, 1, kCopy, 0}, {2, 1, 0, 1, kCopy, 1}, {3, 1, 0, 1, kCopy, 2}});
  std::shared_ptr<const LoweredSchedule> lowered_;
};

TEST_F(ThreeSends, OnePlaceIsForTheSmallest) {
  LandingPlaces places(*lowered_, 1);
  EXPECT_EQ(admits(places), (std::vector<bool>{true, false, false}));
  places.admit(send(0));
  EXPECT_EQ(admits(places), (std::vector<bool>{false, false, false}));
  EXPECT_FALSE(places.commit(arrival(0))) << "one of two chunks";
  EXPECT_TRUE(places.commit(arrival(0, 1)));
  EXPECT_EQ(admits(places), (std::vector<bool>{false, true, false}));
}

TEST_F(ThreeSends, TheLastFreePlaceIsKeptForTheSmallest) {
  LandingPlaces places(*lowered_, 2);
  EXPECT_EQ(admits(places), (std::vector<bool>{true, true, true}));
  places.admit(send(2));
  EXPECT_EQ(admits(places), (std::vector<bool>{true, false, false}))
      << "nobody but the smallest takes the last";
  places.admit(send(0));
  EXPECT_EQ(admits(places), (std::vector<bool>{false, false, false}));
  EXPECT_TRUE(places.commit(arrival(2)));
  EXPECT_TRUE(places.admits(send(1))) << "the smallest holds the other place";
}

TEST_F(ThreeSends, WhatCommitsOutOfOrderDoesNotComeAgain) {
  LandingPlaces places(*lowered_, 3);
  places.admit(send(0));
  places.admit(send(1));
  EXPECT_TRUE(places.commit(arrival(1)));
  EXPECT_FALSE(places.commit(arrival(0)));
  EXPECT_TRUE(places.commit(arrival(0, 1)));
  LandingPlaces one(*lowered_, 1);
  one.admit(send(0));
  one.commit(arrival(0));
  one.commit(arrival(0, 1));
  one.admit(send(1));
  one.commit(arrival(1));
  EXPECT_TRUE(one.admits(send(2)));
}

}  // namespace
}  // namespace pleach
