// Following a plan is what the papers' rules say: each against a player of its own.
#include "pleach/policy/plan_policy.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/buckets.h"
#include "pleach/policy/rehearsal.h"
#include "tests/support/random_profiles.h"
#include "tests/support/random_schedules.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

// Buckets in a fixed order, each as soon as all layers that it meets have their gradients.
class InOrder {
 public:
  InOrder(const ParameterSpace& space, std::vector<ByteRange> buckets)
      : space_(space), buckets_(std::move(buckets)) {}
  void gradient_ready(int32_t layer) { ready_.insert(layer); }
  bool has_next() const {
    const ByteRange bucket = buckets_[next_];
    for (int32_t layer = 0; layer < space_.layer_count(); ++layer) {
      const ByteRange own = space_.layer(layer);
      if (own.begin < bucket.end && bucket.begin < own.end && !ready_.contains(layer)) {
        return false;
      }
    }
    return true;
  }
  ByteRange take() {
    const ByteRange bucket = buckets_[next_];
    if (++next_ == buckets_.size()) {
      next_ = 0;
      ready_.clear();
    }
    return bucket;
  }
  bool is_fresh() const { return next_ == 0; }

 private:
  ParameterSpace space_;
  std::vector<ByteRange> buckets_;
  std::set<int32_t> ready_;
  std::size_t next_ = 0;
};

// DDP's rule, which is MG-WFBP's too: Li et al., VLDB 2020, sec. 3.2.
class AllReduceInOrder : public Policy {
 public:
  AllReduceInOrder(const ParameterSpace& space, std::vector<ByteRange> buckets)
      : buckets_(space, std::move(buckets)) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      buckets_.gradient_ready(event.index);
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    while (buckets_.has_next()) {
      actions.start.push_back({Kind::kAllReduce, buckets_.take()});
    }
  }

 private:
  InOrder buckets_;
};

// DeAR's rule: reduce_scatters as gradients come; when the last one has ended, all all_gathers.
class DecoupledInOrder : public Policy {
 public:
  DecoupledInOrder(const ParameterSpace& space, std::vector<ByteRange> groups, bool step_at_once)
      : groups_(groups),
        reductions_(space, {groups.rbegin(), groups.rend()}),
        needs_{.step_at_once = step_at_once} {}
  PolicyNeeds needs() const override { return needs_; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      reductions_.gradient_ready(event.index);
    } else if (event.kind == EventKind::kCollectiveFinished && reducing_ > 0) {
      --reducing_;
      is_gather_due_ = is_gather_due_ || (reducing_ == 0 && reductions_.is_fresh());
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    while (reductions_.has_next()) {
      actions.start.push_back({Kind::kReduceScatter, reductions_.take()});
      ++reducing_;
    }
    for (std::size_t group = 0; is_gather_due_ && group < groups_.size(); ++group) {
      actions.start.push_back({Kind::kAllGather, groups_[group]});
    }
    is_gather_due_ = false;
  }

 private:
  std::vector<ByteRange> groups_;
  InOrder reductions_;
  PolicyNeeds needs_;
  int32_t reducing_ = 0;
  bool is_gather_due_ = false;
};

Rehearsal rehearsed(const TrainingProfile& profile, const CostModel& costs, Policy& policy) {
  const auto result = rehearse(profile, costs, policy, {.keep_log = true});
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result && result->steady);
  return result ? *result : Rehearsal{};
}

void expect_same(const Rehearsal& one, const Rehearsal& other) {
  EXPECT_EQ(one.iteration_ps, other.iteration_ps);
  EXPECT_EQ(one.iterations, other.iterations);
  EXPECT_FALSE(one.log.empty());
  ASSERT_EQ(one.log.size(), other.log.size());
  for (std::size_t index = 0; index < one.log.size(); ++index) {
    EXPECT_EQ(one.log[index].what.kind, other.log[index].what.kind);
    EXPECT_EQ(one.log[index].what.range, other.log[index].what.range);
    EXPECT_EQ(one.log[index].issued_ps, other.log[index].issued_ps);
    EXPECT_EQ(one.log[index].started_ps, other.log[index].started_ps);
  }
}

// A policy of the registry, and the same by its own rule.
using Rule = std::unique_ptr<Policy> (*)(const PolicySetting& setting);
struct Player {
  const char* spec;
  Rule rule;
};

const Player kPlayers[] = {
    {"ddp,first_bucket=1MiB,bucket=25MiB",
     [](const PolicySetting& setting) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<AllReduceInOrder>(space, fuse_backward(space, 1 << 20, 25 << 20));
     }},
    {"mg_wfbp",
     [](const PolicySetting& setting) -> std::unique_ptr<Policy> {
       return std::make_unique<AllReduceInOrder>(
           ParameterSpace(setting.profile),
           merge_greedily(backward_order(setting.profile), setting.costs));
     }},
    {"dear,bucket=25MiB",
     [](const PolicySetting& setting) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 25 << 20), false);
     }},
    {"dear,bucket=0",
     [](const PolicySetting& setting) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 0), false);
     }},
    {"zero1,bucket=25MiB",
     [](const PolicySetting& setting) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 25 << 20), true);
     }},
};

// Startups or none on the profiles of the benchmark; 1,000 of them when PLEACH_LONG is set.
TEST(PlanPolicy, StartsWhatItsPolicysRuleSaysWhenItSays) {
  for (int32_t seed = 0; seed < support::repeated(100); ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const TrainingProfile profile = support::draw_profile(rng);
    const double bandwidth = support::draw_bandwidth(rng, profile, 0.5, 6.0);
    const AlphaBeta costs(support::kProfileRanks, seed % 2 == 0 ? 0 : 15'000'000, bandwidth);
    const PolicySetting setting{.profile = profile, .costs = costs};
    for (const Player& player : kPlayers) {
      SCOPED_TRACE(testing::Message() << player.spec << ", seed " << seed);
      const auto policy = create_policy(player.spec, setting);
      ASSERT_TRUE(policy) << policy.error().message;
      EXPECT_FALSE((*policy)->plan().empty());
      expect_same(rehearsed(profile, costs, **policy),
                  rehearsed(profile, costs, *player.rule(setting)));
    }
  }
}

}  // namespace
}  // namespace pleach
