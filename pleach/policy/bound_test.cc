// The bound is attained by communication that may be cut at will, and by no policy undercut.
#include "pleach/policy/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/plan.h"
#include "pleach/policy/rehearsal.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;
constexpr int32_t kRanks = 64;

// 4 to 100 layers of log-uniform sizes; forward and backward times independent of each other.
TrainingProfile random_profile(Rng& rng) {
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(4 + rng.below(97)),
                          .rank_count = kRanks};
  for (PolicyLayer& layer : profile.layers) {
    layer.tensor_bytes = {static_cast<int64_t>(std::pow(10.0, 3.0 + 4.0 * rng.unit()))};
    layer.forward_ps = static_cast<int64_t>(rng.below(10 * kMs));
    layer.backward_ps = static_cast<int64_t>(rng.below(20 * kMs));
  }
  return profile;
}

// Without startups; all_reduce of everything takes 0.5 to 6 times forward.
AlphaBeta random_costs(Rng& rng, const TrainingProfile& profile) {
  double forward_s = 0.0;
  for (const PolicyLayer& layer : profile.layers) {
    forward_s += static_cast<double>(layer.forward_ps) * 1e-12;
  }
  const auto bytes = static_cast<double>(ParameterSpace(profile).total_bytes());
  return {kRanks, 0, 2.0 * bytes / ((0.5 + 5.5 * rng.unit()) * forward_s)};
}

// Iteration time when communication is divisible without end, one channel serves it, and the lowest
// layer whose gradients are there always goes first, interrupting others.
int64_t fluid_iteration_ps(const TrainingProfile& profile, const std::vector<int64_t>& time_ps) {
  const PlanTimes times(profile);
  const std::size_t count = profile.layers.size();
  std::vector<int64_t> left_ps = time_ps;
  int64_t now_ps = 0;
  int64_t end_ps = times.compute_ps;
  for (std::size_t here = count; here-- > 0;) {
    // From here on layer `here` is ready; until the next one is, the lowest of those ready goes.
    now_ps = std::max(now_ps, times.ready_ps[here]);
    const int64_t next_ps = here > 0 ? times.ready_ps[here - 1] : INT64_MAX;
    for (std::size_t layer = here; layer < count && now_ps < next_ps; ++layer) {
      const int64_t served_ps = std::min(left_ps[layer], next_ps - now_ps);
      left_ps[layer] -= served_ps;
      now_ps += served_ps;
      if (served_ps > 0 && left_ps[layer] == 0) {
        end_ps = std::max(end_ps, now_ps + times.rest_ps[layer]);
      }
    }
  }
  return end_ps;
}

TEST(Bound, IsAttainedByDivisibleCommunicationInForwardOrder) {
  int mixed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng);
    const AlphaBeta costs = random_costs(rng, profile);
    const IterationBound bound = iteration_bound(profile, costs);
    std::vector<int64_t> time_ps;
    for (const PolicyLayer& layer : profile.layers) {
      time_ps.push_back(costs.time_ps(CollectiveKind::kAllReduce, layer.tensor_bytes[0]));
    }
    // Each layer's time is rounded up to 2 ps.
    EXPECT_NEAR(static_cast<double>(fluid_iteration_ps(profile, time_ps)),
                static_cast<double>(bound.iteration_ps), 2.0 * static_cast<double>(time_ps.size()));
    mixed += bound.layer >= 0 ? 1 : 0;
  }
  EXPECT_GT(mixed, 100);
}

TEST(Bound, IsNotUndercutByAnyPolicy) {
  int32_t steady = 0, rehearsed = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Rng rng(seed);
    const TrainingProfile profile = random_profile(rng);
    const AlphaBeta costs = random_costs(rng, profile);
    const int64_t bound_ps = iteration_bound(profile, costs).iteration_ps;
    for (const PolicyDescriptor* descriptor : policies()) {
      const auto policy = create_policy(descriptor->name, {.profile = profile, .costs = costs});
      ASSERT_TRUE(policy) << policy.error().message;
      const auto result = rehearse(profile, costs, **policy, {.most_iterations = 400});
      ASSERT_TRUE(result) << result.error().message;
      ++rehearsed;
      if (result->steady) {
        ++steady;
        // The least time per byte is that of a time rounded up by 2 ps at most.
        EXPECT_GE(result->iteration_ps + 2, bound_ps) << descriptor->name << ", seed " << seed;
      }
    }
  }
  EXPECT_GE(10 * steady, 9 * rehearsed);
}

// reduce_scatter is cheapest per byte for small messages, all_gather for large ones.
class Opposed : public CostModel {
 public:
  bool has(CollectiveKind kind) const override {
    return kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather;
  }
  int64_t time_ps(CollectiveKind kind, int64_t bytes) const override {
    return kind == CollectiveKind::kReduceScatter ? bytes * (bytes > 256 ? 4000 : 1000)
                                                  : bytes * (bytes > 256 ? 1000 : 4000);
  }
  std::vector<int64_t> breakpoints(CollectiveKind /*kind*/) const override { return {256}; }
};

TEST(Bound, ChargesEachHalfItsOwnCheapestSize) {
  const TrainingProfile profile{.layers = {{.tensor_bytes = {4096}}}, .rank_count = kRanks};
  EXPECT_EQ(iteration_bound(profile, Opposed()).communication_ps, 4096 * 2000);
}

// Straight pieces that go up, with jumps between them, and a startup: all integers.
class Pieces : public CostModel {
 public:
  explicit Pieces(Rng& rng) {
    for (auto piece = static_cast<int64_t>(rng.below(6)); piece >= 0; --piece) {
      const int64_t from_bytes = begins_.empty() ? 0 : begins_.back().from_bytes + 1 + draw(rng);
      begins_.push_back({from_bytes, draw(rng) % 40, 10 * draw(rng)});
    }
  }
  bool has(CollectiveKind kind) const override { return kind == CollectiveKind::kAllReduce; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t bytes) const override {
    int64_t sum_ps = 0;
    for (std::size_t piece = 0; piece < begins_.size(); ++piece) {
      const Piece& one = begins_[piece];
      const int64_t end = piece + 1 < begins_.size() ? begins_[piece + 1].from_bytes : INT64_MAX;
      if (bytes > one.from_bytes) {
        sum_ps += one.jump_ps + one.ps_per_byte * (std::min(bytes, end) - one.from_bytes);
      }
    }
    return sum_ps;
  }
  std::vector<int64_t> breakpoints(CollectiveKind /*kind*/) const override {
    std::vector<int64_t> sizes;
    for (std::size_t piece = 1; piece < begins_.size(); ++piece) {
      sizes.push_back(begins_[piece].from_bytes);
    }
    return sizes;
  }

 private:
  struct Piece {
    int64_t from_bytes = 0;
    int64_t ps_per_byte = 0;
    int64_t jump_ps = 0;
  };
  static int64_t draw(Rng& rng) { return static_cast<int64_t>(rng.below(200)); }
  std::vector<Piece> begins_;
};

TEST(Bound, FindsTheCheapestOfAllSizes) {
  int inside = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const Pieces costs(rng);
    const auto total_bytes = static_cast<int64_t>(1 + rng.below(1000));
    const TrainingProfile profile{.layers = {{.tensor_bytes = {total_bytes}}},
                                  .rank_count = kRanks};
    double least = INFINITY;  // of all sizes [ps per byte]
    int64_t least_at = 0;
    for (int64_t bytes = 1; bytes <= total_bytes; ++bytes) {
      const double rate = static_cast<double>(costs.time_ps(CollectiveKind::kAllReduce, bytes)) /
                          static_cast<double>(bytes);
      least_at = rate < least ? bytes : least_at;
      least = std::min(least, rate);
    }
    EXPECT_EQ(iteration_bound(profile, costs).communication_ps,
              static_cast<int64_t>(std::floor(least * static_cast<double>(total_bytes))));
    inside += least_at < total_bytes && (least_at & (least_at - 1)) != 0 ? 1 : 0;
  }
  EXPECT_GT(inside, 50) << "too few cheapest sizes between powers of two";
}

// 500 ps per byte at 3072 bytes, 700 at 2048, 875 at 4096.
class CheapestAt3072 : public CostModel {
 public:
  bool has(CollectiveKind kind) const override { return kind == CollectiveKind::kAllReduce; }
  int64_t time_ps(CollectiveKind /*kind*/, int64_t bytes) const override {
    return 1'228'800 + 100 * bytes + 1900 * std::max<int64_t>(0, bytes - 3072);
  }
  std::vector<int64_t> breakpoints(CollectiveKind /*kind*/) const override { return {3072}; }
};

TEST(Bound, IsAttainedByMessagesOfTheCheapestSize) {
  const TrainingProfile profile{.layers = {{.tensor_bytes = {8 * 3072}}}, .rank_count = kRanks};
  Plan plan;
  for (int64_t begin = 0; begin < 8 * 3072; begin += 3072) {
    plan.push_back({CollectiveKind::kAllReduce, {begin, begin + 3072}});
  }
  EXPECT_EQ(plan_time_ps(profile, CheapestAt3072(), plan), 8 * 3072 * 500);
  EXPECT_EQ(iteration_bound(profile, CheapestAt3072()).iteration_ps, 8 * 3072 * 500);
}

TEST(Bound, OfModelsWithoutParametersIsTheirComputation) {
  const TrainingProfile profile{.layers = {{.tensor_bytes = {}, .forward_ps = 3, .backward_ps = 4}},
                                .rank_count = 1};
  const IterationBound bound = iteration_bound(profile, AlphaBeta(1, 0, 1e9));
  EXPECT_EQ(bound.iteration_ps, 7);
  EXPECT_EQ(bound.communication_ps, 0);
  EXPECT_EQ(bound.layer, -1);
}

}  // namespace
}  // namespace pleach
