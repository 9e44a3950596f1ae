#include "pleach/policy/search/plan_search.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/policy/bound.h"
#include "pleach/policy/search/plan_annealing.h"
#include "pleach/policy/search/plan_order.h"
#include "pleach/policy/search/plan_partition.h"

namespace pleach {
namespace {

using Kind = CollectiveKind;

// Pieces of a default plan are no smaller than this part of the model, cuts no finer than that.
constexpr int64_t kMostPieces = 256;
constexpr int64_t kMostCells = 1024;
// Parts of the model that uniform pieces have.
constexpr std::array<int64_t, 13> kParts = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256};

struct Abilities {
  bool all_reduce = false;
  bool halves = false;
  bool all_reduce_is_cheaper = false;  // than its halves, at some size
};

Abilities abilities_of(const CostModel& costs, int64_t total_bytes) {
  Abilities can;
  can.all_reduce = costs.has(Kind::kAllReduce);
  can.halves = costs.has(Kind::kReduceScatter) && costs.has(Kind::kAllGather);
  for (int64_t bytes = total_bytes; bytes > 0 && can.all_reduce && can.halves; bytes /= 2) {
    can.all_reduce_is_cheaper |=
        costs.time_ps(Kind::kAllReduce, bytes) <
        costs.time_ps(Kind::kReduceScatter, bytes) + costs.time_ps(Kind::kAllGather, bytes);
  }
  return can;
}

// Keeps the best plan on a grid.
class Best {
 public:
  explicit Best(const PlanGrid& grid) : grid_(grid) {}
  void offer(PlanPieces pieces) {
    const int64_t time_ps = score_pieces(grid_, pieces).time_ps;
    if (time_ps < time_ps_) {
      time_ps_ = time_ps;
      pieces_ = std::move(pieces);
    }
  }
  const PlanPieces& pieces() const { return pieces_; }

 private:
  const PlanGrid& grid_;
  PlanPieces pieces_;
  int64_t time_ps_ = INT64_MAX;
};

// Partitions of one phase.
using Partitions = std::vector<PlanPieces>;

Partitions uniform_partitions(const PlanGrid& grid, Kind kind, int64_t least_bytes) {
  const int64_t total_bytes = grid.bytes(0, grid.cell_count());
  const auto cut = kind == Kind::kAllGather ? cut_forward : cut_backward;
  Partitions partitions;
  for (const int64_t parts : kParts) {
    partitions.push_back(cut(grid, kind, total_bytes / parts, least_bytes));
  }
  return partitions;
}

Partitions exact_partition(const PlanGrid& grid, Kind kind, int64_t least_bytes) {
  return {cut_optimally(grid, kind, least_bytes)};
}

using Orders = std::span<const PlanOrder>;

Orders orders_of(const PlanSearchOptions& options) {
  static constexpr std::array kAll = {PlanOrder::kForwardPriority, PlanOrder::kReduceFirst,
                                      PlanOrder::kGatherLast};
  return Orders(kAll).subspan(options.gathers_last ? 2 : 0);
}

// Every pair of partitions, where it has gathers, in each of the orders.
void offer_orders(const PlanGrid& grid, const Partitions& reductions, const Partitions& gathers,
                  Orders orders, Best& best) {
  for (const PlanPieces& reduced : reductions) {
    for (const PlanPieces& gathered : gathers) {
      for (const PlanOrder order : orders) {
        best.offer(order_pieces(grid, reduced, gathered, order));
      }
    }
  }
}

// Where annealing starts: the best of uniform partitions, and of those with an exact one.
std::array<PlanPieces, 2> starts(const PlanGrid& grid, const Abilities& can, Orders orders,
                                 int64_t least_bytes) {
  Best uniform(grid);
  Best exact(grid);
  const auto offer = [&](Kind kind, const auto& gathers_of) {
    const Partitions reductions = uniform_partitions(grid, kind, least_bytes);
    const Partitions exact_reductions = exact_partition(grid, kind, least_bytes);
    const Partitions gathers = gathers_of(uniform_partitions);
    const Partitions exact_gathers = gathers_of(exact_partition);
    offer_orders(grid, reductions, gathers, orders, uniform);
    offer_orders(grid, exact_reductions, gathers, orders, exact);
    offer_orders(grid, reductions, exact_gathers, orders, exact);
    offer_orders(grid, exact_reductions, exact_gathers, orders, exact);
  };
  if (can.all_reduce) {
    offer(Kind::kAllReduce, [](const auto& /*partition*/) { return Partitions(1); });
  }
  if (can.halves) {
    offer(Kind::kReduceScatter,
          [&](const auto& partition) { return partition(grid, Kind::kAllGather, least_bytes); });
  }
  return {uniform.pieces(), exact.pieces()};
}

class ScaledCosts final : public CostModel {
 public:
  ScaledCosts(const CostModel& costs, int64_t percent_more)
      : costs_(costs), percent_more_(percent_more) {}
  bool has(CollectiveKind kind) const override { return costs_.has(kind); }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return scaled_ps(costs_.time_ps(kind, size_bytes), percent_more_);
  }

 private:
  const CostModel& costs_;
  const int64_t percent_more_;
};

// Scores a plan as score_pieces does; it need not be on a grid.
int64_t mean_time_ps(const TrainingProfile& profile, const CostModel& costs, const Plan& plan,
                     int64_t margin_percent) {
  return mean_with_margin_ps(margin_percent, [&](int64_t percent) {
    return plan_time_ps(profile, ScaledCosts(costs, percent), plan);
  });
}

}  // namespace

Plan search_plan(const TrainingProfile& profile, const CostModel& costs,
                 const PlanSearchOptions& options) {
  const int64_t total_bytes = ParameterSpace(profile).total_bytes();
  if (total_bytes == 0) {
    return {};
  }
  const Abilities can = abilities_of(costs, total_bytes);
  const auto part = [&](int64_t parts) { return (total_bytes + parts - 1) / parts; };
  const int64_t least_bytes =
      std::min(total_bytes, options.least_bytes > 0 ? options.least_bytes : part(kMostPieces));
  const PlanGrid grid(profile, costs, std::max(least_bytes, part(kMostCells)),
                      options.margin_percent);
  Best found(grid);
  for (PlanPieces& start : starts(grid, can, orders_of(options), least_bytes)) {
    found.offer(anneal(grid, std::move(start),
                       {.least_bytes = least_bytes,
                        .effort = options.effort,
                        .enough_ps = iteration_bound(profile, costs).iteration_ps,
                        .may_convert = can.all_reduce_is_cheaper,
                        .gathers_last = options.gathers_last,
                        .seed = options.seed}));
  }
  const PlanPieces& pieces = found.pieces();
  Plan best = grid.plan(pieces);
  int64_t best_ps = score_pieces(grid, pieces).time_ps;
  for (const Plan& plan : options.known) {
    int64_t moved_bytes = 0;
    for (const PolicyCollective& one : plan) {
      moved_bytes += one.range.size();
    }
    const bool is_allowed = options.least_bytes <= 0 || moved_bytes >= count_of(plan) * least_bytes;
    const int64_t time_ps = mean_time_ps(profile, costs, plan, options.margin_percent);
    if (is_allowed && time_ps < best_ps) {
      best_ps = time_ps;
      best = plan;
    }
  }
  return best;
}

}  // namespace pleach
