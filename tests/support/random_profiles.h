// Random trainings for policies: what the benchmark measures them on, and tests compare them on.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/policy/profile.h"

namespace pleach::support {

inline constexpr int32_t kProfileRanks = 64;
inline constexpr double kProfileComputePs = 250e9;

// Layers uniform in 4 to 200; 1 to 4 tensors each, log-uniform from 40 kB to 40 MB; forward times
// uniform, backward twice them, 250 ms together.
inline TrainingProfile draw_profile(Rng& rng) {
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(4 + rng.below(197)),
                          .rank_count = kProfileRanks};
  std::vector<double> forward;
  double sum = 0.0;
  for (PolicyLayer& layer : profile.layers) {
    for (uint64_t tensors = 1 + rng.below(4); tensors > 0; --tensors) {
      const double elements = std::pow(10.0, 4.0 + 3.0 * rng.unit());
      layer.tensor_bytes.push_back(4 * static_cast<int64_t>(elements));
    }
    sum += forward.emplace_back(rng.unit());
  }
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
    const auto forward_ps = static_cast<int64_t>(forward[layer] / sum * kProfileComputePs / 3.0);
    profile.layers[layer].forward_ps = forward_ps;
    profile.layers[layer].backward_ps = 2 * forward_ps;
  }
  return profile;
}

// Bandwidth of a ring [bytes/s] whose all_reduce of everything takes, without startups, this many
// times forward: uniform in [least_ratio, most_ratio).
inline double draw_bandwidth(Rng& rng, const TrainingProfile& profile, double least_ratio,
                             double most_ratio) {
  const double ratio = least_ratio + (most_ratio - least_ratio) * rng.unit();
  const auto total_bytes = static_cast<double>(ParameterSpace(profile).total_bytes());
  const double share = (kProfileRanks - 1.0) / kProfileRanks;
  return 2.0 * share * total_bytes / (ratio * kProfileComputePs / 3.0) * kPicosecondsPerSecond;
}

}  // namespace pleach::support
