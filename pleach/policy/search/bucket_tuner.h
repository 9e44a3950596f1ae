// BucketTuner: Bayesian search over one size, from measured iteration times.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {

struct BucketTunerOptions {
  int64_t least_bytes = 0;
  int64_t most_bytes = 0;  // > least_bytes
  int64_t first_bytes = 0;
  int32_t trials = 1;
  uint64_t seed = 0;
};

// Tries a size for a window of five iteration starts and takes the mean of the last two intervals;
// the first window only warms up. The next size is the one of greatest expected improvement; after
// the last trial the best stays. Ranks that see the same times choose the same sizes.
//   source  Zhang et al., DeAR, ICDCS 2023, as in its public code; expected improvement: Jones et
//           al., J. Global Optimization 13 (1998); its margin is a part of the best time, where the
//           public code takes 0.1 s
class BucketTuner {
 public:
  explicit BucketTuner(const BucketTunerOptions& options);

  // An iteration starts. Returns whether the size changes now.
  bool start_iteration(int64_t now_ps);
  int64_t size_bytes() const { return size_bytes_; }
  bool settled() const { return count_of(sizes_) == options_.trials; }

 private:
  int64_t propose();
  int64_t best_size() const;

  const BucketTunerOptions options_;
  Rng rng_;
  int64_t size_bytes_;
  bool is_warm_ = false;
  std::vector<int64_t> window_ps_;  // starts of iterations with this size
  std::vector<double> sizes_;       // of the trials [bytes]
  std::vector<double> scores_;      // − iteration time [ps]
};

}  // namespace pleach
