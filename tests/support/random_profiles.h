// Random trainings for policies: what the benchmark measures them on, and tests compare them on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/policy/atoms.h"
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

// Models that are hard to cut and to schedule: tensors of one element, tensors larger than all
// others together, layers without tensors and without time, more tensors than there may be atoms,
// one rank, elements of 2, 4 and 8 bytes. Atoms are the default's, those of cut_atoms with an
// element for each rank as quantum, or cut anywhere.
inline TrainingProfile draw_hard_profile(Rng& rng) {
  constexpr int32_t kRanks[] = {1, 2, 3, 7, 64};
  constexpr int64_t kElementBytes[] = {2, 4, 8};
  TrainingProfile profile{.layers = std::vector<PolicyLayer>(1 + rng.below(40)),
                          .rank_count = kRanks[rng.below(5)]};
  const bool has_many = rng.below(4) == 0;
  std::vector<AtomTensor> tensors;
  for (std::size_t layer = 0; layer < profile.layers.size(); ++layer) {
    PolicyLayer& one = profile.layers[layer];
    for (uint64_t left = rng.below(has_many ? 150 : 4); left > 0; --left) {
      const int64_t element_bytes = kElementBytes[rng.below(3)];
      const double most = rng.below(3) == 0 ? 0.0 : 6.0 * rng.unit();
      const auto elements = static_cast<int64_t>(std::pow(10.0, most));
      one.tensor_bytes.push_back(elements * element_bytes);
      tensors.push_back({.size_bytes = elements * element_bytes,
                         .layer = static_cast<int32_t>(layer),
                         .quantum_bytes = element_bytes * profile.rank_count});
    }
    one.forward_ps = rng.below(5) == 0 ? 0 : static_cast<int64_t>(rng.below(5'000'000'000));
    one.backward_ps = rng.below(5) == 0 ? 0 : 2 * one.forward_ps;
    one.continues_block = rng.below(3) == 0;
  }
  if (!tensors.empty() && rng.below(2) == 0) {  // larger than all others together
    const std::size_t large = rng.below(profile.layers.size());
    profile.layers[large].tensor_bytes.push_back(80'000'000);
    tensors.push_back({.size_bytes = 80'000'000,
                       .layer = static_cast<int32_t>(large),
                       .quantum_bytes = int64_t{4} * profile.rank_count});
    std::ranges::stable_sort(tensors, {}, &AtomTensor::layer);
  }
  const uint64_t cuts = rng.below(3);
  if (cuts == 1) {
    profile.atom_bytes = cut_atoms(tensors, {.least_bytes = 1000, .join_bytes = 1000}).value();
  } else if (cuts == 2) {
    for (int64_t left = ParameterSpace(profile).total_bytes(); left > 0;) {
      const auto bytes = static_cast<int64_t>(std::pow(10.0, 3.0 + 4.0 * rng.unit()));
      profile.atom_bytes.push_back(std::min(left, bytes));
      left -= profile.atom_bytes.back();
    }
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
