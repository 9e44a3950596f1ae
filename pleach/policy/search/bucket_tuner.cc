#include "pleach/policy/search/bucket_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pleach/base/index.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/search/gaussian_process.h"

namespace pleach {
namespace {

constexpr std::size_t kWindow = 5;
constexpr int64_t kIntervals = 2;  // of a window that count
constexpr double kMargin = 0.03;   // of an improvement, as a part of the best time
constexpr int kCandidates = 1000;  // sizes drawn for every proposal

// Of a normal variable over `threshold`.
double expected_improvement(const GaussianProcess::Prediction& one, double threshold) {
  const double gain = one.mean - threshold;
  if (one.deviation <= 0.0) {
    return std::max(gain, 0.0);
  }
  const double z = gain / one.deviation;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
  return gain * 0.5 * std::erfc(-z / std::numbers::sqrt2) + one.deviation * density;
}

}  // namespace

BucketTuner::BucketTuner(const BucketTunerOptions& options)
    : options_(options), rng_(options.seed), size_bytes_(options.first_bytes) {}

bool BucketTuner::start_iteration(int64_t now_ps) {
  if (settled()) {
    return false;
  }
  window_ps_.push_back(now_ps);
  if (window_ps_.size() < kWindow) {
    return false;
  }
  const int64_t span_ps = now_ps - window_ps_[kWindow - 1 - kIntervals];
  return end_window(static_cast<double>(span_ps) / kIntervals);
}

bool BucketTuner::observe(int64_t iteration_ps) {
  if (settled()) {
    return false;
  }
  window_ps_.push_back(iteration_ps);
  if (window_ps_.size() < kWindow - 1) {
    return false;
  }
  int64_t sum_ps = 0;
  for (std::size_t index = kWindow - 1 - kIntervals; index < kWindow - 1; ++index) {
    sum_ps += window_ps_[index];
  }
  return end_window(static_cast<double>(sum_ps) / kIntervals);
}

bool BucketTuner::end_window(double mean_ps) {
  window_ps_.clear();
  if (!is_warm_) {
    is_warm_ = true;
    return false;
  }
  sizes_.push_back(static_cast<double>(size_bytes_));
  scores_.push_back(-mean_ps);
  const int64_t before_bytes = size_bytes_;
  size_bytes_ = settled() ? best_size() : propose();
  return size_bytes_ != before_bytes;
}

int64_t BucketTuner::best_size() const {
  return static_cast<int64_t>(sizes_[at(std::ranges::max_element(scores_) - scores_.begin())]);
}

int64_t BucketTuner::propose() {
  const auto range = static_cast<double>(options_.most_bytes - options_.least_bytes);
  const GaussianProcess process(sizes_, scores_, range);
  const double best_score = *std::ranges::max_element(scores_);
  const double threshold = best_score + kMargin * std::abs(best_score);
  double best = -1.0;
  int64_t best_bytes = size_bytes_;
  for (int candidate = 0; candidate < kCandidates; ++candidate) {
    const int64_t bytes = options_.least_bytes + static_cast<int64_t>(range * rng_.unit());
    const double improvement =
        expected_improvement(process.at(static_cast<double>(bytes)), threshold);
    if (improvement > best) {
      best = improvement;
      best_bytes = bytes;
    }
  }
  return best_bytes;
}

Result<BucketTunerOptions> bucket_tuner_options(const Options& options, uint64_t seed) {
  const BucketTunerOptions tuner = {.least_bytes = options.number("least"),
                                    .most_bytes = options.number("most"),
                                    .first_bytes = options.number("first"),
                                    .trials = static_cast<int32_t>(options.integer("trials")),
                                    .seed = seed};
  if (tuner.least_bytes >= tuner.most_bytes || tuner.first_bytes < tuner.least_bytes ||
      tuner.first_bytes > tuner.most_bytes) {
    return invalid(
        fmt::format("policy dear_bo: first={} is not between least={} and a greater most={}",
                    options.text("first"), options.text("least"), options.text("most")));
  }
  return tuner;
}

Result<BucketTuner> create_bucket_tuner(std::string_view spec, uint64_t seed) {
  PLEACH_ASSIGN(selected, policies().select(spec));
  if (selected.entry->name != "dear_bo") {
    return invalid(
        fmt::format("policy {} has no bucket size to tune; dear_bo has", selected.entry->name));
  }
  PLEACH_ASSIGN(options, bucket_tuner_options(selected.options, seed));
  return BucketTuner(options);
}

}  // namespace pleach
