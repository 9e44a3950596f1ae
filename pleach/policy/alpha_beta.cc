#include "pleach/policy/alpha_beta.h"

#include <cmath>

#include "pleach/base/units.h"

namespace pleach {

bool AlphaBeta::has(CollectiveKind kind) const {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll ||
         kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
}

int64_t AlphaBeta::time_ps(CollectiveKind kind, int64_t size_bytes) const {
  const double ranks = rank_count_;
  const int64_t phases = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const bool moves_all = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
  const double part = moves_all && rank_count_ > 1 ? 1.0 : (ranks - 1) / ranks;
  const double seconds = part * static_cast<double>(size_bytes) / bandwidth_;
  const double moves_ps = std::ceil(seconds * static_cast<double>(kPicosecondsPerSecond));
  const double hops_ps = (ranks - 1) * static_cast<double>(alpha_ps_);
  const double all_ps =
      static_cast<double>(phases) * (moves_ps + hops_ps) + static_cast<double>(overhead_ps_);
  if (!(all_ps < static_cast<double>(kLongestPs))) {
    return kLongestPs + 1;
  }
  const int64_t once_ps = (rank_count_ - 1) * alpha_ps_ + static_cast<int64_t>(moves_ps);
  return overhead_ps_ + phases * once_ps;
}

}  // namespace pleach
