#include "pleach/planning/padding.h"

#include <algorithm>

namespace pleach {

int64_t padding_unit_bytes(const Schedule& schedule, int32_t segment_count) {
  constexpr int64_t kMostBytes = 64 << 10;
  const int64_t segments = std::max(segment_count, 1);
  if (schedule.collective == CollectiveKind::kAllToAll) {
    return schedule.rank_count();  // whole blocks
  }
  const int64_t total = schedule.chunks.total();
  return total <= kMostBytes / segments ? total * segments : 1;
}

}  // namespace pleach
