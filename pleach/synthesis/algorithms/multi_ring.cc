// multi_ring: several rings at once, which share no link or no network card.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "pleach/base/index.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/hierarchy.h"
#include "pleach/synthesis/ring_order.h"
#include "pleach/synthesis/ring_schedule.h"
#include "pleach/synthesis/route_finder.h"
#include "pleach/topology/grids.h"

namespace pleach {
namespace {

using Cycle = std::vector<int32_t>;

// Two cycles over all links of a torus of `lines` x `width` nodes, as (line, column) pairs; none
// where this construction gives none. The first goes along every line but one link of it and on to
// the next line where it stands; the other takes the links that are left. Those are one cycle when
// lines = k·width and k has no divisor in common with width - 1: a column's links that are left
// are k paths, and from the end of one the way leads to a path of the next column.
//   source  Bae & Bose, Edge disjoint Hamiltonian cycles in k-ary n-cubes and hypercubes, 2003
std::optional<std::array<std::vector<std::array<int32_t, 2>>, 2>> torus_cycles(int32_t lines,
                                                                               int32_t width) {
  if (width < 3 || lines % width != 0 || std::gcd(lines / width, width - 1) != 1) {
    return std::nullopt;
  }
  std::array<std::vector<std::array<int32_t, 2>>, 2> cycles;
  int32_t line = 0;
  for (int32_t number = 0; number < lines * width; ++number) {
    const int32_t turn = number / width % lines, place = number % width;
    cycles[0].push_back({turn, (place + lines - turn) % width});
    // The other: `width` nodes down a column, from a line that fits it, then to the next column.
    cycles[1].push_back({line, turn % width});
    line = place == width - 1 ? line : (line + 1) % lines;
  }
  return cycles;
}

// Cycles of the nodes of a grid of two dimensions that wrap.
std::vector<Cycle> disjoint_cycles(std::span<const GridDimension> grid) {
  std::vector<Cycle> result;
  if (grid.size() != 2 || !grid[0].wraps || !grid[1].wraps) {
    return result;
  }
  const int32_t rows = grid[0].size, columns = grid[1].size;
  for (const bool is_transposed : {false, true}) {
    const auto found = is_transposed ? torus_cycles(columns, rows) : torus_cycles(rows, columns);
    if (!found) {
      continue;
    }
    for (const auto& nodes : *found) {
      Cycle& cycle = result.emplace_back();
      for (const auto& [line, column] : nodes) {
        cycle.push_back(is_transposed ? column * columns + line : line * columns + column);
      }
    }
    break;
  }
  return result;
}

// A ring for each member of the innermost groups: it enters groups at that member and leaves them
// at the one before, and every other group the other way round, so that it stays on their rails.
std::vector<Cycle> rail_cycles(const Hierarchy& hierarchy) {
  const int32_t rails = hierarchy.sizes[0];
  std::vector<GridDimension> outer;
  for (int32_t level = 1; level < hierarchy.level_count(); ++level) {
    outer.insert(outer.begin(), {hierarchy.sizes[at(level)], false});
  }
  const std::vector<int32_t> groups = grid_snake(outer);
  std::vector<Cycle> result(at(rails));
  for (int32_t rail = 0; rail < rails; ++rail) {
    for (std::size_t turn = 0; turn < groups.size(); ++turn) {
      for (int32_t step = 0; step < rails; ++step) {
        const int32_t member = (rail + (turn % 2 == 0 ? step : rails - 1 - step)) % rails;
        result[at(rail)].push_back(hierarchy.rank_at[at(groups[turn] * rails + member)]);
      }
    }
  }
  return result;
}

// The most ways side by side from a rank to the next.
int32_t widest_way(const SynthesisRequest& request, std::span<const Cycle> cycles) {
  Router router(request.topology);
  const auto node = [&](int32_t rank) { return request.participants[at(rank)]; };
  int32_t most = 1;
  for (const Cycle& cycle : cycles) {
    for (std::size_t place = 0; place < cycle.size(); ++place) {
      const int32_t next = cycle[(place + 1) % cycle.size()];
      most = std::max(most, router.ways_out(node(cycle[place]), node(next)));
    }
  }
  return std::min(most, kStripeLimit);
}

Result<Schedule> around(const SynthesisRequest& request, std::span<const Cycle> cycles,
                        const Options& options) {
  const std::string& stripes = options.text("stripes");
  return ring_schedule(request, cycles,
                       stripes == "auto" ? widest_way(request, cycles) : std::stoi(stripes));
}

Result<Schedule> multi_ring(const SynthesisRequest& request, const Options& options) {
  const Topology& topology = request.topology;
  if (are_whole_grid(topology, request.participants)) {
    std::vector<Cycle> cycles = disjoint_cycles(topology.grid());
    const RankOfNode rank_of(request.participants);
    const std::size_t one_way = cycles.size();
    for (std::size_t index = 0; index < one_way; ++index) {
      for (int32_t& node : cycles[index]) {
        node = rank_of(NodeId{node});
      }
      cycles.emplace_back(cycles[index].rbegin(), cycles[index].rend());
    }
    if (cycles.empty()) {
      return Error{
          ErrorCode::kInfeasible,
          fmt::format("{} is no torus of two dimensions, one k times the other, with k and "
                      "the smaller one less 1 having no common divisor",
                      topology.name())};
    }
    return around(request, cycles, options);
  }
  PLEACH_ASSIGN(hierarchy, find_hierarchy(topology, request.participants));
  if (hierarchy.level_count() < 2) {
    return Error{
        ErrorCode::kInfeasible,
        fmt::format("the ranks of {} are no whole torus (one that lost a cable or a node is none), "
                    "and nothing tells them apart into groups with rails",
                    topology.name())};
  }
  return around(request, rail_cycles(hierarchy), options);
}

}  // namespace

extern const Algorithm kMultiRing = {
    .name = "multi_ring",
    .summary = "rings that share no link of a torus, or one for each rail of boxes",
    .source = "Bae & Bose 2003 (edge-disjoint Hamiltonian cycles); NCCL's channels",
    .collectives = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                    CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                    CollectiveKind::kReduce},
    .options = {stripes_option()},
    .create = &multi_ring,
};

}  // namespace pleach
