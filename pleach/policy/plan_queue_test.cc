// What a plan's queue hands out, and when: by hand, and legally however its plans change.
#include "pleach/policy/plan_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

ParameterSpace space_of(const std::vector<int64_t>& layer_bytes) {
  TrainingProfile profile;
  for (const int64_t bytes : layer_bytes) {
    profile.layers.push_back({.tensor_bytes = {bytes}});
  }
  return ParameterSpace(profile);
}

// All that may start now: "r 4-12, g 0-4".
std::string taken(PlanQueue& queue) {
  std::string text;
  while (const auto one = queue.take()) {
    text += text.empty() ? "" : ", ";
    text += one->kind == Kind::kAllReduce ? 'a' : one->kind == Kind::kReduceScatter ? 'r' : 'g';
    text += ' ' + std::to_string(one->range.begin) + '-' + std::to_string(one->range.end);
  }
  return text;
}

// Buckets [4, 10) and [0, 4) of layers of 3 and 7 bytes.
TEST(PlanQueue, ReducesInOrderAndStartsOver) {
  PlanQueue queue(space_of({3, 7}), all_reduce_plan(std::vector<ByteRange>{{4, 10}, {0, 4}}));
  for (int iteration = 0; iteration < 2; ++iteration) {
    EXPECT_TRUE(queue.is_fresh());
    queue.gradient_ready(0);
    EXPECT_EQ(taken(queue), "");  // its bucket is not the first
    EXPECT_TRUE(queue.is_fresh());
    queue.gradient_ready(1);
    EXPECT_EQ(queue.take()->range, (ByteRange{4, 10}));
    EXPECT_FALSE(queue.is_fresh());
    EXPECT_EQ(taken(queue), "a 0-4");
  }
}

TEST(PlanQueue, GathersWhatIsReduced) {
  PlanQueue queue(space_of({4, 4, 4}), decoupled_plan(std::vector<ByteRange>{{0, 4}, {4, 12}}));
  for (int32_t first = 0; first < 8; first += 4) {
    queue.gradient_ready(2);
    EXPECT_EQ(taken(queue), "");
    queue.gradient_ready(1);
    EXPECT_EQ(taken(queue), "r 4-12");
    queue.finish(first);
    EXPECT_EQ(taken(queue), "");
    queue.gradient_ready(0);
    EXPECT_EQ(taken(queue), "r 0-4");
    queue.finish(first + 1);
    EXPECT_EQ(taken(queue), "g 0-4, g 4-12");
    queue.finish(first + 2);
    queue.finish(first + 3);
    EXPECT_EQ(taken(queue), "");
  }
}

// On a wide channel reductions may end in any order; gathers still start in the plan's.
TEST(PlanQueue, WaitsForTheReductionsOfItsBytesOnly) {
  const ParameterSpace space = space_of({4, 4});
  const Plan plan = {{Kind::kReduceScatter, {2, 8}},
                     {Kind::kReduceScatter, {0, 2}},
                     {Kind::kAllGather, {4, 8}},
                     {Kind::kAllGather, {0, 4}}};
  PlanQueue queue(space, plan);
  for (int32_t first = 0; first < 12; first += 4) {
    queue.gradient_ready(1);
    queue.gradient_ready(0);
    EXPECT_EQ(taken(queue), "r 2-8, r 0-2");
    const bool in_order = first == 4;
    queue.finish(in_order ? first : first + 1);
    EXPECT_EQ(taken(queue), in_order ? "g 4-8" : "");
    queue.finish(in_order ? first + 1 : first);
    EXPECT_EQ(taken(queue), in_order ? "g 0-4" : "g 4-8, g 0-4");
  }
}

// Another plan waits until the old one is decided.
TEST(PlanQueue, ChangesItsPlanBetweenIterations) {
  const auto grouped = [](int64_t cut) {
    return decoupled_plan(std::vector<ByteRange>{{0, cut}, {cut, 12}});
  };
  PlanQueue queue(space_of({4, 4, 4}), decoupled_plan(std::vector<ByteRange>{{0, 12}}));
  queue.replace(grouped(4));  // nothing has come yet: at once
  queue.gradient_ready(2);
  queue.replace(grouped(8));
  queue.gradient_ready(1);
  EXPECT_EQ(taken(queue), "r 4-12");
  queue.gradient_ready(0);
  EXPECT_EQ(taken(queue), "r 0-4");
  queue.finish(0);
  queue.finish(1);
  EXPECT_EQ(taken(queue), "g 0-4, g 4-12");
  queue.finish(2);
  queue.gradient_ready(2);
  EXPECT_EQ(taken(queue), "r 8-12");
  queue.finish(3);
  queue.finish(4);
  EXPECT_EQ(taken(queue), "");
}

TEST(PlanQueue, OfNothingHandsOutNothing) {
  PlanQueue queue(ParameterSpace({.layers = {{.tensor_bytes = {}}}}), {});
  queue.gradient_ready(0);
  EXPECT_EQ(taken(queue), "");
}

// Takes another plan every time that forward begins, whatever is under way then.
class Restless : public Policy {
 public:
  Restless(const TrainingProfile& profile, uint64_t seed)
      : space_(profile), rng_(seed), followed_(profile, random_plan()) {}
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kForwardNeeded && event.index == 0) {
      followed_.replace(random_plan());
    }
    followed_.observe(event);
  }
  void decide(int64_t now_ps, PolicyActions& actions) override {
    followed_.decide(now_ps, actions);
  }

 private:
  Plan random_plan() {
    return decoupled_plan(fuse_by_threshold(space_, static_cast<int64_t>(rng_.below(3000))));
  }
  ParameterSpace space_;
  Rng rng_;
  PlanPolicy followed_;
};

TEST(PlanQueue, StaysLegalHoweverItsPlansChange) {
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
