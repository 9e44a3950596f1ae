// AlphaBeta: the cost model of a ring by a few numbers, and the simplest one to reason with.
#pragma once

#include <cstdint>

#include "pleach/policy/profile.h"

namespace pleach {

// reduce_scatter and all_gather of n bytes on P ranks: (P−1)·alpha + (P−1)/P · n / bandwidth;
// all_reduce twice that; all_to_all (P−1)·alpha + (P−1)/P · n / bandwidth; broadcast and reduce,
// along the ring in pieces that follow one another, (P−1)·alpha + n / bandwidth, and nothing on one
// rank. Rounded up to 1 ps.
// Each of them pays `overhead` once more, all_reduce too; on one rank none does. What takes longer
// than kLongestPs takes 1 ps more than that.
//   alpha_ps               per hop [ps], ≥ 0
//   overhead_ps            per collective, whatever its ranks and size [ps], ≥ 0
//   bandwidth_bytes_per_s  of the slowest link a rank sends over, > 0
//   source  docs of nccl-tests (PERFORMANCE.md), for what each rank's link carries; Thakur et al.,
//           IJHPCA 2005, sec. 4
class AlphaBeta : public CostModel {
 public:
  AlphaBeta(int32_t rank_count, int64_t alpha_ps, double bandwidth_bytes_per_s,
            int64_t overhead_ps = 0)
      : rank_count_(rank_count),
        alpha_ps_(alpha_ps),
        bandwidth_(bandwidth_bytes_per_s),
        overhead_ps_(rank_count > 1 ? overhead_ps : 0) {}
  bool has(CollectiveKind kind) const override;
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override;

 private:
  int32_t rank_count_;
  int64_t alpha_ps_;
  double bandwidth_;
  int64_t overhead_ps_;
};

}  // namespace pleach
