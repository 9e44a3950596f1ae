#include "pleach/policy/search/plan_grid.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {

namespace {

// Scores them with costs that are longer by so many percent.
PlanScore score_with(const PlanGrid& grid, std::span<const PlanPiece> pieces, int64_t percent) {
  PlanScore score{grid.compute_ps(), count_of(pieces) - 1};
  int64_t now_ps = 0;
  for (std::size_t index = 0; index < pieces.size(); ++index) {
    const PlanPiece& one = pieces[index];
    if (reduces(one.kind)) {
      now_ps = std::max(now_ps, grid.ready_ps(one.first));
    }
    now_ps += scaled_ps(one.cost_ps, percent);
    if (distributes(one.kind) && now_ps + grid.rest_ps(one.first) > score.time_ps) {
      score = {now_ps + grid.rest_ps(one.first), static_cast<int32_t>(index)};
    }
  }
  return score;
}

}  // namespace

PlanGrid::PlanGrid(const TrainingProfile& profile, const CostModel& costs, int64_t cell_bytes,
                   int64_t margin_percent)
    : costs_(costs), margin_percent_(margin_percent) {
  const ParameterSpace space(profile);
  const PlanTimes times(profile);
  compute_ps_ = times.compute_ps;
  cuts_.push_back(0);
  for (int32_t layer = 0; layer < space.layer_count(); ++layer) {
    const ByteRange range = space.layer(layer);
    const int64_t count = std::max<int64_t>(1, range.size() / cell_bytes);
    for (int64_t cell = 1; cell <= count; ++cell) {
      const int64_t cut =
          space.nearest_cut(cell == count ? range.end : range.begin + range.size() / count * cell);
      if (cut > cuts_.back()) {
        // Its first layer yields its gradients last and needs its parameters first.
        const auto first = at(space.layer_of(cuts_.back()));
        ready_ps_.push_back(times.ready_ps[first]);
        rest_ps_.push_back(times.rest_ps[first]);
        cuts_.push_back(cut);
      }
    }
  }
}

Plan PlanGrid::plan(std::span<const PlanPiece> pieces) const {
  Plan plan;
  for (const PlanPiece& one : pieces) {
    plan.push_back({one.kind, {cuts_[at(one.first)], cuts_[at(one.end)]}});
  }
  return plan;
}

PlanScore score_pieces(const PlanGrid& grid, std::span<const PlanPiece> pieces) {
  PlanScore score;
  score.time_ps = mean_with_margin_ps(grid.margin_percent(), [&](int64_t percent) {
    const PlanScore own = score_with(grid, pieces, percent);
    score.critical = percent == 0 ? own.critical : score.critical;
    return own.time_ps;
  });
  return score;
}

}  // namespace pleach
