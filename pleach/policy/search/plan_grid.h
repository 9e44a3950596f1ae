// PlanGrid: the places where a planner may cut the parameter space, and pieces between them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/policy/plan.h"

namespace pleach {

// Cells [first, end) of a grid, in one collective.
struct PlanPiece {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int32_t first = 0;
  int32_t end = 0;
  int64_t cost_ps = 0;
  bool operator==(const PlanPiece&) const = default;
};

// In the order on the wire.
using PlanPieces = std::vector<PlanPiece>;

// Cells end at the atoms nearest to the ends of layers, and nearest to every `cell_bytes` inside a
// large one. Immutable.
class PlanGrid {
 public:
  // Both outlive the grid. `cell_bytes` > 0.
  //   margin_percent  0 to 90: by which all costs may be off, in scores
  PlanGrid(const TrainingProfile& profile, const CostModel& costs, int64_t cell_bytes,
           int64_t margin_percent = 0);

  int32_t cell_count() const { return count_of(ready_ps_); }
  int64_t bytes(int32_t first, int32_t end) const { return cuts_[at(end)] - cuts_[at(first)]; }
  // Gradients of the cell, and of all later ones, are there, since the start of backward.
  int64_t ready_ps(int32_t cell) const { return ready_ps_[at(cell)]; }
  // Computation from the forward that needs the cell.
  int64_t rest_ps(int32_t cell) const { return rest_ps_[at(cell)]; }
  int64_t compute_ps() const { return compute_ps_; }
  const CostModel& costs() const { return costs_; }
  int64_t margin_percent() const { return margin_percent_; }
  PlanPiece piece(CollectiveKind kind, int32_t first, int32_t end) const {
    return {kind, first, end, costs_.time_ps(kind, bytes(first, end))};
  }
  Plan plan(std::span<const PlanPiece> pieces) const;

 private:
  const CostModel& costs_;
  const int64_t margin_percent_;
  std::vector<int64_t> cuts_;
  std::vector<int64_t> ready_ps_;
  std::vector<int64_t> rest_ps_;
  int64_t compute_ps_ = 0;
};

// A cost that is so many percent more, or less.
inline int64_t scaled_ps(int64_t cost_ps, int64_t percent_more) {
  return cost_ps + cost_ps / 100 * percent_more;
}

// The mean of a plan's times over costs that may be off: time_ps(percent more), of -margin, 0 and
// margin.
template <typename Time>
int64_t mean_with_margin_ps(int64_t margin_percent, const Time& time_ps) {
  const int64_t exact_ps = time_ps(0);
  return margin_percent == 0 ? exact_ps
                             : (exact_ps + time_ps(-margin_percent) + time_ps(margin_percent)) / 3;
}

struct PlanScore {
  // The iteration's time as plan_time_ps finds it; where the grid has a margin, the mean of that on
  // its costs, on lower and on higher ones.
  int64_t time_ps = 0;
  int32_t critical = 0;  // the piece that forward waits for; the last one where it never waits
};
// Scores a legal plan, which may be empty.
//   cost  O(pieces); three times as much with a margin
PlanScore score_pieces(const PlanGrid& grid, std::span<const PlanPiece> pieces);

}  // namespace pleach
