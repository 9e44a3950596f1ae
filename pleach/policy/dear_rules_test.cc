// DeAR's rules with groups that stay, and with groups that change.
#include "pleach/policy/dear_rules.h"

#include <gtest/gtest.h>

#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

TrainingProfile three_layers() {
  TrainingProfile profile;
  profile.layers.assign(3, {.tensor_bytes = {4}, .forward_ps = 10, .backward_ps = 20});
  return profile;
}

// The ranges that a decision starts, all of one kind.
std::vector<ByteRange> decide(DearRules& schedule, CollectiveKind kind) {
  PolicyActions actions;
  schedule.decide(actions);
  std::vector<ByteRange> ranges;
  for (const PolicyCollective& what : actions.start) {
    EXPECT_EQ(what.kind, kind);
    ranges.push_back(what.range);
  }
  return ranges;
}

using Ranges = std::vector<ByteRange>;
constexpr CollectiveKind kScatter = CollectiveKind::kReduceScatter;
constexpr CollectiveKind kGather = CollectiveKind::kAllGather;

TEST(DearRules, GathersWhenAllIsScattered) {
  DearRules schedule(ParameterSpace(three_layers()), {{0, 4}, {4, 12}});
  for (int iteration = 0; iteration < 2; ++iteration) {
    schedule.observe({EventKind::kGradientReady, 0, 2});
    EXPECT_EQ(decide(schedule, kScatter), Ranges{});
    schedule.observe({EventKind::kGradientReady, 0, 1});
    EXPECT_EQ(decide(schedule, kScatter), (Ranges{{4, 12}}));
    schedule.observe({EventKind::kCollectiveFinished, 0, 0});
    EXPECT_EQ(decide(schedule, kScatter), Ranges{});
    schedule.observe({EventKind::kGradientReady, 0, 0});
    EXPECT_EQ(decide(schedule, kScatter), (Ranges{{0, 4}}));
    schedule.observe({EventKind::kCollectiveFinished, 0, 1});
    EXPECT_EQ(decide(schedule, kGather), (Ranges{{0, 4}, {4, 12}}));
    schedule.observe({EventKind::kCollectiveFinished, 0, 2});
    schedule.observe({EventKind::kCollectiveFinished, 0, 3});
    EXPECT_EQ(decide(schedule, kGather), Ranges{});
  }
}

// New groups wait until the old ones' all_gathers are decided.
TEST(DearRules, RegroupsBetweenIterations) {
  DearRules schedule(ParameterSpace(three_layers()), {{0, 12}});
  schedule.regroup({{0, 4}, {4, 12}});  // nothing has come yet: at once
  schedule.observe({EventKind::kGradientReady, 0, 2});
  schedule.regroup({{0, 8}, {8, 12}});
  schedule.observe({EventKind::kGradientReady, 0, 1});
  EXPECT_EQ(decide(schedule, kScatter), (Ranges{{4, 12}}));
  schedule.observe({EventKind::kGradientReady, 0, 0});
  EXPECT_EQ(decide(schedule, kScatter), (Ranges{{0, 4}}));
  schedule.observe({EventKind::kCollectiveFinished, 0, 0});
  schedule.observe({EventKind::kCollectiveFinished, 0, 1});
  EXPECT_EQ(decide(schedule, kGather), (Ranges{{0, 4}, {4, 12}}));
  schedule.observe({EventKind::kGradientReady, 0, 2});
  EXPECT_EQ(decide(schedule, kScatter), (Ranges{{8, 12}}));
}

// Takes other groups every time that forward begins, whatever is under way then.
class Restless : public Policy {
 public:
  Restless(const TrainingProfile& profile, uint64_t seed)
      : space_(profile), rng_(seed), schedule_(space_, random_groups()) {}
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kForwardNeeded && event.index == 0) {
      schedule_.regroup(random_groups());
    }
    schedule_.observe(event);
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override { schedule_.decide(actions); }

 private:
  std::vector<ByteRange> random_groups() {
    return fuse_by_threshold(space_, static_cast<int64_t>(rng_.below(3000)));
  }
  ParameterSpace space_;
  Rng rng_;
  DearRules schedule_;
};

TEST(DearRules, StaysLegalHoweverItsGroupsChange) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    TrainingProfile profile;
    profile.rank_count = 4;
    for (uint64_t layer = 0; layer < 12; ++layer) {
      PolicyLayer& one = profile.layers.emplace_back();
      if (rng.below(4) > 0) {
        one.tensor_bytes = {1 + static_cast<int64_t>(rng.below(1000))};
      }
      one.forward_ps = static_cast<int64_t>(rng.below(1000));
      one.backward_ps = static_cast<int64_t>(rng.below(2000));
    }
    const AlphaBeta costs(4, static_cast<int64_t>(rng.below(200)), 1e12);
    Restless policy(profile, seed);
    const auto result = rehearse(profile, costs, policy);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_GE(result->iterations, 2);
  }
}

}  // namespace
}  // namespace pleach
