#include "pleach/policy/search/plan_partition.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pleach {
namespace {

// Cells where pieces may begin, and the end of the grid.
std::vector<int32_t> possible_cuts(const PlanGrid& grid) {
  const int64_t total_bytes = grid.bytes(0, grid.cell_count());
  const int64_t apart_bytes = grid.cell_count() > kMostPartitionCells
                                  ? (total_bytes + kMostPartitionCells - 1) / kMostPartitionCells
                                  : 0;
  std::vector<int32_t> cuts = {0};
  for (int32_t cell = 1; cell < grid.cell_count(); ++cell) {
    if (grid.bytes(cuts.back(), cell) >= apart_bytes) {
      cuts.push_back(cell);
    }
  }
  cuts.push_back(grid.cell_count());
  return cuts;
}

}  // namespace

PlanPieces cut_optimally(const PlanGrid& grid, CollectiveKind kind, int64_t least_bytes) {
  const bool is_gather = kind == CollectiveKind::kAllGather;
  const std::vector<int32_t> cuts = possible_cuts(grid);
  const std::size_t last = cuts.size() - 1;
  struct Best {
    int64_t time_ps = INT64_MAX;  // of the pieces from a cut on; INT64_MAX: they are too small
    int32_t count = 0;            // of them: of equally good ones, the fewest
    std::size_t next = 0;         // where the first of them ends
  };
  std::vector<Best> best(cuts.size());
  best[last].time_ps = 0;
  for (std::size_t cut = last; cut-- > 0;) {
    const int32_t first = cuts[cut];
    const int64_t wait_ps = is_gather ? grid.rest_ps(first) : grid.ready_ps(first);
    for (std::size_t next = cut + 1; next <= last; ++next) {
      const bool is_whole = cut == 0 && next == last;
      if (best[next].time_ps == INT64_MAX ||
          (grid.bytes(first, cuts[next]) < least_bytes && !is_whole)) {
        continue;
      }
      const int64_t time_ps =
          grid.piece(kind, first, cuts[next]).cost_ps + std::max(best[next].time_ps, wait_ps);
      const int32_t count = best[next].count + 1;
      if (std::pair(time_ps, count) < std::pair(best[cut].time_ps, best[cut].count)) {
        best[cut] = {time_ps, count, next};
      }
    }
  }
  PlanPieces pieces;
  for (std::size_t cut = 0; cut < last; cut = best[cut].next) {
    pieces.push_back(grid.piece(kind, cuts[cut], cuts[best[cut].next]));
  }
  if (!is_gather) {
    std::ranges::reverse(pieces);
  }
  return pieces;
}

}  // namespace pleach
