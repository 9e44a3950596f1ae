#include "pleach/runtime/barrier.h"

#include <utility>

namespace pleach {

Schedule barrier_schedule(int32_t rank_count) {
  Schedule schedule;
  int32_t levels = 0;
  while ((int64_t{1} << levels) < rank_count) {
    ++levels;
  }
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    schedule.participants.push_back(NodeId{rank});
  }
  for (int32_t level = 0; level < levels; ++level) {
    const int64_t distance = int64_t{1} << level;
    for (int64_t child = distance; child < rank_count; child += 2 * distance) {
      const NodeId below{static_cast<int32_t>(child)};
      const NodeId above{static_cast<int32_t>(child - distance)};
      schedule.transfers.push_back(
          {.source = below, .target = above, .step = level, .op = TransferOp::kReduce});
      schedule.transfers.push_back({.source = above,
                                    .target = below,
                                    .step = 2 * levels - 1 - level,
                                    .op = TransferOp::kCopy});
    }
  }
  if (levels > 0) {
    schedule.phase_steps = {levels, levels};
    schedule.period = 2 * levels;
  }
  sort_transfers(schedule);
  return schedule;
}

}  // namespace pleach
