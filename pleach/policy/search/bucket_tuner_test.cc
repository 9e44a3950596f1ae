// The search of dear_bo: regression against closed forms, trials as they are counted, sizes found.
#include "pleach/policy/search/bucket_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/rehearsal.h"
#include "pleach/policy/search/gaussian_process.h"

namespace pleach {
namespace {

constexpr int64_t kMs = 1'000'000'000;
constexpr int64_t kMiB = int64_t{1} << 20;

TEST(GaussianProcess, PassesThroughItsSamplesAndForgetsFarFromThem) {
  const std::vector<double> x = {0.1, 0.3, 0.4, 0.8};
  const std::vector<double> y = {3.0, -1.0, 0.5, 2.0};
  const GaussianProcess process(x, y, 1.0);
  for (std::size_t sample = 0; sample < x.size(); ++sample) {
    EXPECT_NEAR(process.at(x[sample]).mean, y[sample], 1e-3);
    EXPECT_LT(process.at(x[sample]).deviation, 0.01);
  }
  const auto far = process.at(1e6);
  EXPECT_NEAR(far.mean, 1.125, 1e-9);
  EXPECT_NEAR(far.deviation, std::sqrt(2.296875), 1e-9);
}

// One sample at 0 of value y: with unit scale, deviation² at x is 1 − k(x)²/(1 + noise).
TEST(GaussianProcess, AgreesWithTheClosedFormForOneSample) {
  const GaussianProcess process(std::vector{0.0}, std::vector{7.0}, 1.0);
  EXPECT_NEAR(process.at(0.0).mean, 7.0, 1e-12);
  EXPECT_NEAR(process.at(0.0).deviation, std::sqrt(1.0 - 1.0 / (1.0 + 1e-6)), 1e-9);
  // All lengths are equally likely, so the first, 0.01, stays: r = √5.
  const double r = std::sqrt(5.0);
  const double kernel = (1.0 + r + r * r / 3.0) * std::exp(-r);
  EXPECT_NEAR(process.at(0.01).deviation, std::sqrt(1.0 - kernel * kernel / (1.0 + 1e-6)), 1e-9);
}

TEST(GaussianProcess, FindsALongLengthForASmoothFunction) {
  std::vector<double> x;
  std::vector<double> y;
  for (int sample = 0; sample <= 8; ++sample) {
    x.push_back(sample / 8.0);
    y.push_back(x.back() * x.back());
  }
  const GaussianProcess process(x, y, 1.0);
  EXPECT_NEAR(process.at(0.4375).mean, 0.4375 * 0.4375, 0.01);
}

TEST(GaussianProcess, TakesRepeatedAndEqualSamples) {
  const GaussianProcess process(std::vector{1.0, 1.0, 2.0}, std::vector{5.0, 5.0, 5.0}, 10.0);
  EXPECT_NEAR(process.at(1.5).mean, 5.0, 1e-9);
  EXPECT_TRUE(std::isfinite(process.at(1.0).deviation));
}

// Drives a tuner whose iterations last `time_ps(size)`; returns the sizes in use, by iteration.
std::vector<int64_t> drive(BucketTuner& tuner, const std::function<int64_t(int64_t)>& time_ps) {
  std::vector<int64_t> sizes;
  int64_t now_ps = 0;
  while (!tuner.settled() && sizes.size() < 1000) {
    sizes.push_back(tuner.size_bytes());
    tuner.start_iteration(now_ps);
    now_ps += time_ps(tuner.size_bytes());
  }
  return sizes;
}

BucketTunerOptions options_with(uint64_t seed) {
  return {.least_bytes = kMiB,
          .most_bytes = 256 * kMiB,
          .first_bytes = 25 * kMiB,
          .trials = 10,
          .seed = seed};
}

// Told the times of iterations, of which four make a window, it tries what it tries when it is told
// their starts, of which five do.
TEST(BucketTuner, TakesMeasuredIterations) {
  const auto time_ps = [](int64_t bytes) { return kMs + std::abs(bytes - 60 * kMiB); };
  BucketTuner by_starts(options_with(7));
  const std::vector<int64_t> sizes = drive(by_starts, time_ps);
  BucketTuner by_times(options_with(7));
  for (std::size_t iteration = 0; iteration < sizes.size() / 5 * 4; ++iteration) {
    ASSERT_FALSE(by_times.settled());
    const int64_t before_bytes = by_times.size_bytes();
    EXPECT_EQ(before_bytes, sizes[iteration / 4 * 5]);
    const bool changes = by_times.observe(time_ps(before_bytes));
    EXPECT_EQ(changes, by_times.size_bytes() != before_bytes);
    EXPECT_TRUE(!changes || iteration % 4 == 3);
  }
  EXPECT_TRUE(by_times.settled());
  EXPECT_EQ(by_times.size_bytes(), by_starts.size_bytes());
  EXPECT_FALSE(by_times.observe(1));
}

TEST(BucketTuner, IsCreatedFromTheSpecOfItsPolicy) {
  const auto tuner = create_bucket_tuner("dear_bo,first=2MiB,trials=3", 1);
  ASSERT_TRUE(tuner) << tuner.error().message;
  EXPECT_EQ(tuner->size_bytes(), 2 * kMiB);
  EXPECT_FALSE(tuner->settled());
  EXPECT_EQ(create_bucket_tuner("dear", 1).error().message,
            "policy dear has no bucket size to tune; dear_bo has");
  EXPECT_EQ(create_bucket_tuner("dear_bo,first=1kB", 1).error().message,
            "policy dear_bo: first=1kB is not between least=1MiB and a greater most=256MiB");
}

int64_t valley_ps(int64_t size_bytes) {
  const double mib = static_cast<double>(size_bytes) / static_cast<double>(kMiB);
  return 100 * kMs + static_cast<int64_t>((mib - 90.0) * (mib - 90.0) * 1e6);
}

TEST(BucketTuner, WarmsUpOneWindowAndTriesTenSizes) {
  BucketTuner tuner(options_with(1));
  const std::vector<int64_t> sizes = drive(tuner, valley_ps);
  EXPECT_EQ(sizes.size(), 55U);
  // Two windows with the first size, then a proposal after every fifth start.
  EXPECT_EQ(std::ranges::count(sizes, 25 * kMiB), 10);
  for (std::size_t start = 1; start < sizes.size(); ++start) {
    EXPECT_TRUE(start % 5 == 0 || sizes[start] == sizes[start - 1]) << start;
  }
  EXPECT_FALSE(tuner.start_iteration(INT64_MAX / 2));
}

TEST(BucketTuner, FindsAValley) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    BucketTuner tuner(options_with(seed));
    drive(tuner, valley_ps);
    EXPECT_LT(valley_ps(tuner.size_bytes()), 101 * kMs) << "seed " << seed;
  }
}

TEST(BucketTuner, KeepsTheBestSizeItHasTried) {
  BucketTuner tuner(options_with(3));
  // The first size is the best: nothing else comes near.
  drive(tuner, [](int64_t bytes) { return bytes == 25 * kMiB ? kMs : 2 * kMs; });
  EXPECT_EQ(tuner.size_bytes(), 25 * kMiB);
}

TEST(BucketTuner, RepeatsItselfForTheSameSeedOnly) {
  const auto run = [](uint64_t seed) {
    BucketTuner tuner(options_with(seed));
    return drive(tuner, valley_ps);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

// Many layers, a startup that makes the default threshold a poor one.
TEST(DearBo, IsNoWorseThanDearOnceItHasSettled) {
  const PolicyLayer layer{.tensor_bytes = {4 * kMiB}, .forward_ps = kMs, .backward_ps = 2 * kMs};
  const TrainingProfile profile{.layers = std::vector<PolicyLayer>(60, layer), .rank_count = 16};
  for (const int64_t alpha_ps : {int64_t{0}, kMs / 100, kMs}) {
    const AlphaBeta costs(16, alpha_ps, 3e9);
    const auto settle = [&](const std::string& spec) {
      auto policy = create_policy(spec, {.profile = profile, .costs = costs, .seed = 1});
      EXPECT_TRUE(policy) << policy.error().message;
      auto result = rehearse(profile, costs, **policy);
      EXPECT_TRUE(result) << result.error().message;
      EXPECT_TRUE(result->steady);
      return *result;
    };
    const Rehearsal searched = settle("dear_bo");
    EXPECT_GE(searched.iterations, 55);
    EXPECT_LE(searched.iteration_ps, settle("dear").iteration_ps);
  }
}

TEST(DearBo, RefusesSizesOutOfOrder) {
  const TrainingProfile profile{.layers = {{.tensor_bytes = {4}}}, .rank_count = 2};
  const AlphaBeta costs(2, 0, 1e9);
  for (const char* spec :
       {"dear_bo,least=256MiB", "dear_bo,most=1MiB", "dear_bo,first=1KiB", "dear_bo,first=1GiB",
        "dear_bo,trials=0", "dear_bo,least=25MiB,most=25MiB"}) {
    const auto policy = create_policy(spec, {.profile = profile, .costs = costs});
    ASSERT_FALSE(policy) << spec;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(policy.error().message.find("dear_bo"), std::string::npos);
  }
}

}  // namespace
}  // namespace pleach
