#include "pleach/policy/search/plan_order.h"

#include <algorithm>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

bool overlap(const PlanPiece& one, const PlanPiece& other) {
  return one.first < other.end && other.first < one.end;
}

// Serves pieces one by one on a channel.
class Dispatcher {
 public:
  Dispatcher(const PlanGrid& grid, std::span<const PlanPiece> reductions,
             std::span<const PlanPiece> gathers, PlanOrder order)
      : grid_(grid),
        order_(order),
        reductions_(reductions.begin(), reductions.end()),
        gathers_(gathers.begin(), gathers.end()) {
    for (const PlanPiece& gather : gathers_) {
      missing_.push_back(std::ranges::count_if(
          reductions_, [&](const PlanPiece& one) { return overlap(one, gather); }));
    }
  }

  PlanPieces run() {
    PlanPieces served;
    while (!reductions_.empty() || !gathers_.empty()) {
      const std::size_t reduction = next_reduction();
      const std::size_t gather = next_gather();
      if (reduction < reductions_.size() && goes_first(reduction, gather)) {
        served.push_back(reductions_[reduction]);
        finish(reduction);
      } else if (gather < gathers_.size()) {
        served.push_back(gathers_[gather]);
        gathers_.erase(gathers_.begin() + static_cast<std::ptrdiff_t>(gather));
        missing_.erase(missing_.begin() + static_cast<std::ptrdiff_t>(gather));
      } else {
        now_ps_ = grid_.ready_ps(reductions_.front().first);
        continue;
      }
      now_ps_ += served.back().cost_ps;
    }
    return served;
  }

 private:
  // The lowest whose gradients are there: they come in backward order.
  std::size_t next_reduction() const {
    std::size_t next = reductions_.size();
    for (std::size_t index = 0;
         index < reductions_.size() && grid_.ready_ps(reductions_[index].first) <= now_ps_;
         ++index) {
      next = index;
    }
    return next;
  }
  std::size_t next_gather() const {
    if (order_ == PlanOrder::kGatherLast && !reductions_.empty()) {
      return gathers_.size();
    }
    return at(std::ranges::find(missing_, 0) - missing_.begin());
  }
  bool goes_first(std::size_t reduction, std::size_t gather) const {
    return gather == gathers_.size() || order_ != PlanOrder::kForwardPriority ||
           reductions_[reduction].first <= gathers_[gather].first;
  }
  void finish(std::size_t reduction) {
    for (std::size_t index = 0; index < gathers_.size(); ++index) {
      missing_[index] -= overlap(reductions_[reduction], gathers_[index]) ? 1 : 0;
    }
    reductions_.erase(reductions_.begin() + static_cast<std::ptrdiff_t>(reduction));
  }

  const PlanGrid& grid_;
  const PlanOrder order_;
  PlanPieces reductions_;  // still to go
  PlanPieces gathers_;
  std::vector<int64_t> missing_;  // by gather: reductions before it that are still to go
  int64_t now_ps_ = 0;
};

}  // namespace

PlanPieces cut_backward(const PlanGrid& grid, CollectiveKind kind, int64_t piece_bytes,
                        int64_t least_bytes) {
  PlanPieces pieces;
  int32_t end = grid.cell_count();
  for (int32_t first = end - 1; first >= 0; --first) {
    const bool is_full = grid.bytes(first, end) >= std::max(piece_bytes, least_bytes) &&
                         grid.bytes(0, first) >= least_bytes;
    if (is_full || first == 0) {
      pieces.push_back(grid.piece(kind, first, end));
      end = first;
    }
  }
  return pieces;
}

PlanPieces cut_forward(const PlanGrid& grid, CollectiveKind kind, int64_t piece_bytes,
                       int64_t least_bytes) {
  PlanPieces pieces;
  int32_t first = 0;
  for (int32_t end = 1; end <= grid.cell_count(); ++end) {
    const bool is_full = grid.bytes(first, end) >= std::max(piece_bytes, least_bytes) &&
                         grid.bytes(end, grid.cell_count()) >= least_bytes;
    if (is_full || end == grid.cell_count()) {
      pieces.push_back(grid.piece(kind, first, end));
      first = end;
    }
  }
  return pieces;
}

PlanPieces order_pieces(const PlanGrid& grid, std::span<const PlanPiece> reductions,
                        std::span<const PlanPiece> gathers, PlanOrder order) {
  return Dispatcher(grid, reductions, gathers, order).run();
}

}  // namespace pleach
