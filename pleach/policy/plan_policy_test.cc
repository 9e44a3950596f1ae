// Following a plan is what the papers' rules say: each against a player of its own.
#include "pleach/policy/plan_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
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

// What a legal plan of any collectives means, looked at one after the other, without counting: a
// reduction waits for the layers that it meets, an all_gather until the reductions of this
// iteration that have finished cover it.
class InOrderOfPlan : public Policy {
 public:
  InOrderOfPlan(const ParameterSpace& space, std::span<const PolicyCollective> plan)
      : space_(space), plan_(plan.begin(), plan.end()) {}
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      ready_.insert(event.index);
    } else if (event.kind == EventKind::kCollectiveFinished) {
      finished_.insert(event.index);
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    while (may_start(plan_[next_])) {
      actions.start.push_back(plan_[next_]);
      if (++next_ == plan_.size()) {
        next_ = 0;
        ready_.clear();
        first_number_ += count_of(plan_);
      }
    }
  }

 private:
  bool may_start(const PolicyCollective& one) const {
    return one.kind == Kind::kAllGather ? is_reduced(one.range) : is_ready(one.range);
  }
  bool is_ready(const ByteRange& range) const {
    for (int32_t layer = 0; layer < space_.layer_count(); ++layer) {
      const ByteRange own = space_.layer(layer);
      if (own.begin < range.end && range.begin < own.end && !ready_.contains(layer)) {
        return false;
      }
    }
    return true;
  }
  bool is_reduced(const ByteRange& range) const {
    int64_t covered_bytes = 0;  // each byte is in one reduction
    for (std::size_t index = 0; index < plan_.size(); ++index) {
      const PolicyCollective& other = plan_[index];
      if (other.kind == Kind::kReduceScatter &&
          finished_.contains(first_number_ + static_cast<int32_t>(index))) {
        covered_bytes += std::max<int64_t>(
            0, std::min(range.end, other.range.end) - std::max(range.begin, other.range.begin));
      }
    }
    return covered_bytes == range.size();
  }

  const ParameterSpace space_;
  const Plan plan_;
  std::set<int32_t> ready_, finished_;
  std::size_t next_ = 0;
  int32_t first_number_ = 0;
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

// A policy of the registry, and the same by its own rule, which may ask it for its plan.
using Rule = std::unique_ptr<Policy> (*)(const PolicySetting& setting, const Policy& policy);
struct Player {
  const char* spec;
  Rule rule;
};

const Player kPlayers[] = {
    {"ddp,first_bucket=1MiB,bucket=25MiB",
     [](const PolicySetting& setting, const Policy& /*policy*/) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<AllReduceInOrder>(space, fuse_backward(space, 1 << 20, 25 << 20));
     }},
    {"mg_wfbp",
     [](const PolicySetting& setting, const Policy& /*policy*/) -> std::unique_ptr<Policy> {
       return std::make_unique<AllReduceInOrder>(
           ParameterSpace(setting.profile),
           merge_greedily(backward_order(setting.profile), setting.costs));
     }},
    {"dear,bucket=25MiB",
     [](const PolicySetting& setting, const Policy& /*policy*/) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 25 << 20), false);
     }},
    {"dear,bucket=0",
     [](const PolicySetting& setting, const Policy& /*policy*/) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 0), false);
     }},
    {"zero1,bucket=25MiB",
     [](const PolicySetting& setting, const Policy& /*policy*/) -> std::unique_ptr<Policy> {
       const ParameterSpace space(setting.profile);
       return std::make_unique<DecoupledInOrder>(space, fuse_by_threshold(space, 25 << 20), true);
     }},
    {"work_conserving,effort=20",
     [](const PolicySetting& setting, const Policy& policy) -> std::unique_ptr<Policy> {
       return std::make_unique<InOrderOfPlan>(ParameterSpace(setting.profile), policy.plan());
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
                  rehearsed(profile, costs, *player.rule(setting, **policy)));
    }
  }
}

}  // namespace
}  // namespace pleach
