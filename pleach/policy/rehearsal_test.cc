// The exact model, by hand: iteration times of small cases in whole milliseconds.
#include "pleach/policy/rehearsal.h"

#include <gtest/gtest.h>

#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/bound.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;

// all_reduce of a layer of 1000 bytes takes `all_reduce_ms`; no startup.
class PerByte : public CostModel {
 public:
  explicit PerByte(int64_t all_reduce_ms) : all_reduce_ms_(all_reduce_ms) {}
  bool has(CollectiveKind /*kind*/) const override { return true; }
  int64_t time_ps(CollectiveKind kind, int64_t bytes) const override {
    const int64_t both = all_reduce_ms_ * kMs / 1000 * bytes;
    return kind == CollectiveKind::kAllReduce ? both : both / 2;
  }

 private:
  int64_t all_reduce_ms_;
};

TrainingProfile four_layers() {
  TrainingProfile profile;
  profile.rank_count = 8;
  for (int layer = 0; layer < 4; ++layer) {
    profile.layers.push_back(
        {.tensor_bytes = {1000}, .forward_ps = 10 * kMs, .backward_ps = 20 * kMs});
  }
  return profile;
}

struct Case {
  const char* policy;
  int64_t all_reduce_ms;
  int64_t iteration_us;
};

class ExactModel : public testing::TestWithParam<Case> {};

TEST_P(ExactModel, IterationTime) {
  const TrainingProfile profile = four_layers();
  const PerByte costs(GetParam().all_reduce_ms);
  auto policy = create_policy(GetParam().policy, {.profile = profile, .costs = costs});
  ASSERT_TRUE(policy) << policy.error().message;
  const auto result = rehearse(profile, costs, **policy);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->steady);
  EXPECT_EQ(result->iteration_ps, GetParam().iteration_us * (kMs / 1000));
  EXPECT_EQ(result->compute_ps, 120 * kMs);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ExactModel,
    testing::Values(Case{"wfbp", 10, 130'000}, Case{"wfbp", 30, 180'000}, Case{"wfbp", 40, 220'000},
                    Case{"wfbp", 60, 300'000}, Case{"dear,bucket=0", 10, 130'000},
                    Case{"dear,bucket=0", 30, 165'000}, Case{"dear,bucket=0", 40, 190'000},
                    Case{"dear,bucket=0", 60, 270'000}, Case{"p3,slice=1000", 30, 170'000},
                    Case{"p3,slice=1000", 40, 200'000}, Case{"p3,slice=1000", 60, 280'000},
                    Case{"p3,slice=125", 30, 152'500}, Case{"p3,slice=125", 40, 190'000},
                    Case{"p3,slice=125", 60, 270'000}));

// T* of A2: compute 120, communication 120, layer 0's edge 120 + 30.
TEST(Bound, CountsTheEdgeOfTheFirstLayer) {
  const IterationBound bound = iteration_bound(four_layers(), PerByte(30));
  EXPECT_EQ(bound.iteration_ps, 150 * kMs);
  EXPECT_EQ(bound.layer, 0);
}

}  // namespace
}  // namespace pleach
