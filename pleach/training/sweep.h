// Sweep: what network a training needs: its iteration time over a range of link bandwidths.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/training/training.h"

namespace pleach {

struct SweepRequest {
  // With kCurves and kFull, on its network's topology with another bandwidth of `links`; with
  // kAlphaBeta at another bandwidth. What it says of that bandwidth itself is not used.
  TrainingRequest training;
  std::vector<LinkId> links = {};                    // of the topology; kAlphaBeta: none
  std::vector<int64_t> bandwidths_bytes_per_s = {};  // ascending, at least one
  double efficiency = 1;  // kAlphaBeta: what a link brings over its bandwidth, > 0
  int64_t target_ps = 0;  // an iteration time to reach; 0: none
};

struct SweepPoint {
  int64_t bandwidth_bytes_per_s = 0;
  std::vector<TrainingRow> rows;  // one per policy
};

struct Sweep {
  std::vector<SweepPoint> points;  // one per bandwidth
  int64_t target_ps = 0;           // 0: none
  // By policy, with a target: the least bandwidth that meets it, within 1 %; 0: none up to the
  // last. The first bandwidth is not undercut.
  std::vector<int64_t> needed_bytes_per_s;
};

// Trains once per bandwidth, and then bisects between the two around the target, by policy.
//   errors  those of train and with_bandwidth
//   cost    one train() per bandwidth, and with a target about log2(100 · ln(factor)) more for each
//           policy and factor between neighbours
Result<Sweep> sweep_bandwidths(const SweepRequest& request);

}  // namespace pleach
