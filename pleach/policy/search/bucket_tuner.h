// BucketTuner: Bayesian search over one size, from measured iteration times.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/options.h"
#include "pleach/base/result.h"
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
// the last trial the best stays. Ranks that see the same times choose the same sizes; in real
// training, where they do not, one rank proposes for all.
//   source  Zhang et al., DeAR, ICDCS 2023, as in its public code; expected improvement: Jones et
//           al., J. Global Optimization 13 (1998); its margin is a part of the best time, where the
//           public code takes 0.1 s
class BucketTuner {
 public:
  explicit BucketTuner(const BucketTunerOptions& options);

  // An iteration starts. Returns whether the size changes now.
  bool start_iteration(int64_t now_ps);
  // An iteration, all of which had the present size, has taken this long. Returns whether the size
  // changes. Either this is told or start_iteration. Windows are four such iterations.
  bool observe(int64_t iteration_ps);
  int64_t size_bytes() const { return size_bytes_; }
  bool settled() const { return count_of(sizes_) == options_.trials; }

 private:
  bool end_window(double mean_ps);
  int64_t propose();
  int64_t best_size() const;

  const BucketTunerOptions options_;
  Rng rng_;
  int64_t size_bytes_;
  bool is_warm_ = false;
  std::vector<int64_t> window_ps_;  // starts of iterations with this size, or their times
  std::vector<double> sizes_;       // of the trials [bytes]
  std::vector<double> scores_;      // − iteration time [ps]
};

// What the options of dear_bo ask for.   errors  kInvalidArgument: sizes that are out of order
Result<BucketTunerOptions> bucket_tuner_options(const Options& options, uint64_t seed);
// The tuner of a spec of dear_bo ("dear_bo,trials=20"), for one who trains by "dear,bucket=SIZE".
//   errors  kInvalidArgument: another policy, or options that it has not
Result<BucketTuner> create_bucket_tuner(std::string_view spec, uint64_t seed);

}  // namespace pleach
