#include "pleach/training/placements.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/planning/list_planner.h"
#include "pleach/synthesis/ring_order.h"
#include "pleach/training/training_phases.h"
#include "pleach/workload/rank_grid.h"

namespace pleach {

PlacementJudge::PlacementJudge(const Topology& topology, std::unique_ptr<Planner> planner)
    : topology_(&topology),
      planner_(std::move(planner)),
      phases_(std::make_unique<PhasePlanner>(topology, *planner_)),
      switches_(std::make_unique<CellSwitches>(topology)) {}

Result<PlacementJudge> PlacementJudge::create(const Topology& topology) {
  const std::array<std::string, 3> algorithms = {"in_switch", "ring", "direct"};
  PLEACH_ASSIGN(planner, make_list_planner(topology, algorithms, {.wants_certificate = false}));
  return PlacementJudge(topology, std::move(planner));
}

Result<PlacementCost> PlacementJudge::cost(const Strategy& strategy) {
  PLEACH_ASSIGN(phases, training_phases(*topology_, strategy));
  int64_t fastest = 0;
  for (const Link& link : topology_->links()) {
    fastest = std::max(fastest, link.bandwidth_bytes_per_s);
  }
  const RouteOptions options;
  PlacementCost cost;
  for (const TrainingPhase& phase : phases) {
    if (is_io_phase(*topology_, phase)) {
      continue;
    }
    PLEACH_ASSIGN(steps, phases_->steps(phase));
    const auto [streams, link] = most_loaded_link(*topology_, steps);
    cost.slowness.push_back(
        streams == 0 ? 0
                     : static_cast<double>(fastest) * streams /
                           static_cast<double>(topology_->link(link).bandwidth_bytes_per_s));
    for (const PhaseStep& step : steps.steps) {
      for (const PhaseStream& stream : step.streams) {
        cost.links += std::ssize(stream.links);
      }
      SwitchTurn turn(*switches_, options);
      cost.conflicts += switches_->count() == 0 || turn.add_all(step.streams) ? 0 : 1;
    }
  }
  return cost;
}

namespace {

constexpr std::size_t kDimensions = 4;
constexpr int32_t kMostWays = 5000;

// How each dimension of a strategy is cut over a grid's axes.
struct Cut {
  std::vector<std::array<int32_t, kDimensions>> parts;       // by axis and dimension
  std::vector<std::array<std::size_t, kDimensions>> orders;  // by axis: the first counts fastest
};

class MeshPlacer {
 public:
  MeshPlacer(const Topology& topology, const Strategy& strategy)
      : grid_(topology.grid()), strategy_(strategy) {
    for (std::size_t dimension = 0; dimension < kDimensions; ++dimension) {
      sizes_[dimension] = RankGrid(strategy).size(static_cast<ParallelDimension>(dimension));
    }
    cut_.parts.resize(grid_.size());
    cut_.orders.resize(grid_.size());
    for (auto& part : cut_.parts) {
      part.fill(1);
    }
  }

  // The rank of each place, of every way.
  std::vector<std::vector<int32_t>> ways() {
    cut(0, 0, sizes_[0]);
    std::vector<int32_t> along(at(strategy_.rank_count()));
    std::iota(along.begin(), along.end(), 0);
    ways_.push_back(along);
    const std::vector<int32_t> snake = grid_snake(grid_);
    ways_.emplace_back(snake.begin(), snake.begin() + strategy_.rank_count());
    return std::move(ways_);
  }

 private:
  int32_t used(std::size_t axis) const {
    return std::accumulate(cut_.parts[axis].begin(), cut_.parts[axis].end(), 1, std::multiplies());
  }

  // `left` of a dimension is to be cut over the axes before `axis` from the last; what counts
  // fastest is on the last axis.
  void cut(std::size_t dimension, std::size_t axis, int32_t left) {
    if (axis == grid_.size()) {
      if (left == 1 && dimension + 1 == kDimensions) {
        order(0);
      } else if (left == 1) {
        cut(dimension + 1, 0, sizes_[dimension + 1]);
      }
      return;
    }
    for (int32_t part = left; part >= 1; --part) {
      int32_t& own = cut_.parts[grid_.size() - 1 - axis][dimension];
      own = part;
      if (left % part == 0 &&
          used(grid_.size() - 1 - axis) <= grid_[grid_.size() - 1 - axis].size) {
        cut(dimension, axis + 1, left / part);
      }
      own = 1;
    }
  }

  // In what order the parts on an axis are counted.
  void order(std::size_t axis) {
    if (count_of(ways_) >= kMostWays) {
      return;
    }
    if (axis == grid_.size()) {
      ways_.push_back(ranks());
      return;
    }
    std::vector<std::size_t> there, others;
    for (std::size_t dimension = 0; dimension < kDimensions; ++dimension) {
      (cut_.parts[axis][dimension] > 1 ? there : others).push_back(dimension);
    }
    do {
      const auto end = std::ranges::copy(there, cut_.orders[axis].begin()).out;
      std::ranges::copy(others, end);
      order(axis + 1);
    } while (std::ranges::next_permutation(there).found);
  }

  std::vector<int32_t> ranks() const {
    std::vector<int32_t> ranks;
    for (int32_t place = 0; place < strategy_.rank_count(); ++place) {
      std::array<int32_t, kDimensions> digits = {};
      int32_t rest = place;
      for (std::size_t dimension = 0; dimension < kDimensions; ++dimension) {
        digits[dimension] = rest % sizes_[dimension];
        rest /= sizes_[dimension];
      }
      int32_t rank = 0, stride = 1;
      for (std::size_t back = 0; back < grid_.size(); ++back) {
        const std::size_t axis = grid_.size() - 1 - back;
        int32_t coordinate = 0, within = 1;
        for (const std::size_t dimension : cut_.orders[axis]) {
          const int32_t part = cut_.parts[axis][dimension];
          coordinate += digits[dimension] % part * within;
          digits[dimension] /= part;
          within *= part;
        }
        rank += coordinate * stride;
        stride *= grid_[axis].size;
      }
      ranks.push_back(rank);
    }
    return ranks;
  }

  const std::span<const GridDimension> grid_;
  const Strategy& strategy_;
  std::array<int32_t, kDimensions> sizes_ = {};  // tensor, sequence, pipeline, data
  Cut cut_;
  std::vector<std::vector<int32_t>> ways_;
};

Result<Strategy> on_mesh(const Topology& topology, const Strategy& strategy,
                         PlacementJudge& judge) {
  std::optional<std::tuple<int32_t, std::vector<double>, int64_t>> least;
  Strategy best = strategy;
  Strategy tried = strategy;
  for (std::vector<int32_t>& ranks : MeshPlacer(topology, strategy).ways()) {
    tried.rank_of_place = std::move(ranks);
    PLEACH_ASSIGN(cost, judge.cost(tried));
    std::tuple own(cost.conflicts, std::move(cost.slowness), cost.links);
    if (!least || own < *least) {
      least = std::move(own);
      best = tried;
    }
  }
  return best;
}

// What a search makes less: conflicts weigh more than any slowness, and links break ties.
double energy(const PlacementCost& cost) {
  constexpr double kConflict = 1e6, kLink = 1e-6;
  return std::accumulate(cost.slowness.begin(), cost.slowness.end(), kConflict * cost.conflicts) +
         kLink * static_cast<double>(cost.links);
}

// `strategy` has the rank of each place.
Result<Strategy> searched(const Topology& topology, const Strategy& strategy,
                          PlacementJudge& judge) {
  constexpr double kFirstThreshold = 1;
  const int32_t rank_count = count_of(topology.rank_nodes());
  Strategy now = strategy, best = strategy;
  PLEACH_ASSIGN(first, judge.cost(now));
  double energy_now = energy(first), least = energy_now;
  std::vector<int32_t> place_of(at(rank_count), -1);
  for (int32_t place = 0; place < strategy.rank_count(); ++place) {
    place_of[at(now.rank_of_place[at(place)])] = place;
  }
  Rng rng(static_cast<uint64_t>(strategy.placement_seed));
  // The rank of a place goes where another rank is, or nobody.
  const auto swap = [&](int32_t place, int32_t rank) {
    const int32_t own = now.rank_of_place[at(place)];
    std::swap(place_of[at(own)], place_of[at(rank)]);
    now.rank_of_place[at(place)] = rank;
    if (place_of[at(own)] >= 0) {
      now.rank_of_place[at(place_of[at(own)])] = own;
    }
  };
  for (int32_t step = 0; step < kSearchSteps; ++step) {
    const auto place = static_cast<int32_t>(rng.below(at(strategy.rank_count())));
    const auto rank = static_cast<int32_t>(rng.below(at(rank_count)));
    const int32_t before = now.rank_of_place[at(place)];
    if (rank == before) {
      continue;
    }
    swap(place, rank);
    PLEACH_ASSIGN(cost, judge.cost(now));
    const double after = energy(cost);
    const double threshold = kFirstThreshold * (1 - static_cast<double>(step) / kSearchSteps);
    if (after > energy_now && after - energy_now >= threshold) {
      swap(place, before);
      continue;
    }
    energy_now = after;
    if (after < least) {
      least = after;
      best = now;
    }
  }
  return best;
}

}  // namespace

Result<Strategy> placed(const Topology& topology, Strategy strategy) {
  const PlacementRule rule = std::exchange(strategy.placement_rule, PlacementRule::kGiven);
  if (rule == PlacementRule::kGiven) {
    return strategy;
  }
  PLEACH_ASSIGN(judge, PlacementJudge::create(topology));
  const int32_t rank_count = count_of(topology.rank_nodes());
  const bool is_grid = topology.grid().size() > 1 && rank_count <= kMostMeshRanks;
  if (rule == PlacementRule::kMesh && !is_grid) {
    return invalid(topology.grid().size() > 1
                       ? fmt::format("placement=mesh: {} has {} ranks: at most {} are placed so",
                                     topology.name(), rank_count, kMostMeshRanks)
                       : fmt::format("placement=mesh: {} is no grid of two dimensions or more",
                                     topology.name()));
  }
  if (is_grid) {
    PLEACH_SET(strategy, on_mesh(topology, strategy, judge));
  } else {
    strategy.rank_of_place.resize(at(strategy.rank_count()));
    std::iota(strategy.rank_of_place.begin(), strategy.rank_of_place.end(), 0);
  }
  return rule == PlacementRule::kSearch ? searched(topology, strategy, judge)
                                        : Result<Strategy>(std::move(strategy));
}

}  // namespace pleach
