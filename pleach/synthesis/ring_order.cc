#include "pleach/synthesis/ring_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/synthesis/hierarchy.h"
#include "pleach/synthesis/leaves.h"
#include "pleach/topology/grids.h"

namespace pleach {
namespace {

// The search starts over, elsewhere, when it has looked at so many links in vain.
constexpr int64_t kAttemptBudget = 400'000;
constexpr int32_t kAttemptCount = 64;

int32_t node_count(std::span<const GridDimension> grid) {
  int32_t count = 1;
  for (const GridDimension& dimension : grid) {
    count *= dimension.size;
  }
  return count;
}

// The cycle of a grid of path.size() lines and `width` columns, whose node (line, column) is
// number path[line]·width + column: along the first line, then back through the columns, up and
// down over the other lines. `width` is even, and there are at least two lines.
std::vector<int32_t> cross_columns(const std::vector<int32_t>& path, int32_t width) {
  std::vector<int32_t> cycle;
  cycle.reserve(path.size() * at(width));
  for (int32_t column = 0; column < width; ++column) {
    cycle.push_back(path[0] * width + column);
  }
  for (int32_t column = width - 1; column >= 0; --column) {
    const bool goes_down = (width - 1 - column) % 2 == 0;
    for (std::size_t k = 1; k < path.size(); ++k) {
      cycle.push_back(path[goes_down ? k : path.size() - k] * width + column);
    }
  }
  return cycle;
}

// The same with lines and columns exchanged: path.size() is even, `width` at least two.
std::vector<int32_t> cross_lines(const std::vector<int32_t>& path, int32_t width) {
  std::vector<int32_t> cycle;
  cycle.reserve(path.size() * at(width));
  for (const int32_t line : path) {
    cycle.push_back(line * width);
  }
  for (std::size_t k = path.size(); k-- > 0;) {
    const bool goes_right = (path.size() - 1 - k) % 2 == 0;
    for (int32_t column = 1; column < width; ++column) {
      cycle.push_back(path[k] * width + (goes_right ? column : width - column));
    }
  }
  return cycle;
}

// path.size() and `width` odd, and a line wraps: a snake over all columns but the first, which the
// last line enters by wrapping and which leads back.
std::vector<int32_t> cross_wrapping(const std::vector<int32_t>& path, int32_t width) {
  std::vector<int32_t> cycle = {path[0] * width};
  for (std::size_t k = 0; k < path.size(); ++k) {
    for (int32_t column = 1; column < width; ++column) {
      cycle.push_back(path[k] * width + (k % 2 == 0 ? column : width - column));
    }
  }
  for (std::size_t k = path.size(); k-- > 1;) {
    cycle.push_back(path[k] * width);
  }
  return cycle;
}

// `grid` with dimension `last` moved to the end; and back, for node numbers.
std::vector<GridDimension> with_last(std::span<const GridDimension> grid, std::size_t last) {
  std::vector<GridDimension> moved(grid.begin(), grid.end());
  std::rotate(moved.begin() + static_cast<std::ptrdiff_t>(last),
              moved.begin() + static_cast<std::ptrdiff_t>(last) + 1, moved.end());
  return moved;
}

int32_t number_before_move(std::span<const GridDimension> grid, std::size_t last, int32_t moved) {
  const int32_t inner = node_count(grid.subspan(last + 1));
  const int32_t width = grid[last].size;
  const int32_t column = moved % width, rest = moved / width;
  return (rest / inner * width + column) * inner + rest % inner;
}

// Links between participants; vertices are the participants in ascending node order, so that the
// ring does not depend on how ranks are numbered.
class CycleSearch {
 public:
  CycleSearch(const Topology& topology, std::span<const NodeId> participants)
      : ranks_(participants.size()),
        targets_(participants.size()),
        sources_(participants.size()),
        open_targets_(participants.size()),
        is_visited_(participants.size()) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
    std::ranges::sort(ranks_, {}, [&](int32_t rank) { return participants[at(rank)]; });
    std::vector<int32_t> vertex_of(topology.nodes().size(), -1);
    for (std::size_t vertex = 0; vertex < ranks_.size(); ++vertex) {
      vertex_of[participants[at(ranks_[vertex])].index()] = static_cast<int32_t>(vertex);
    }
    std::vector<int32_t> joined_from(participants.size(), -1);  // parallel links count once
    for (int32_t vertex = 0; vertex < count_of(ranks_); ++vertex) {
      for (const LinkId link : topology.links_out(participants[at(ranks_[at(vertex)])])) {
        const int32_t target = vertex_of[topology.link(link).target.index()];
        if (target >= 0 && joined_from[at(target)] != vertex) {
          joined_from[at(target)] = vertex;
          targets_[at(vertex)].push_back(target);
          sources_[at(target)].push_back(vertex);
          ++open_targets_[at(vertex)];
          ++link_count_;
        }
      }
    }
  }

  // The ranks in the order of a cycle; none when there is none or the budget ends.
  std::optional<std::vector<int32_t>> run() {
    const auto isolated = [](const std::vector<int32_t>& links) { return links.empty(); };
    if (std::ranges::any_of(targets_, isolated) || std::ranges::any_of(sources_, isolated)) {
      return std::nullopt;
    }
    const auto count = count_of(ranks_);
    const int32_t attempt_count = std::min(count, kAttemptCount);
    for (int32_t attempt = 0; attempt < attempt_count; ++attempt) {
      start_ = static_cast<int32_t>(int64_t{attempt} * count / attempt_count);
      budget_ = kAttemptBudget + 4 * link_count_;
      if (auto found = search()) {
        return found;
      }
      if (budget_ > 0) {
        return std::nullopt;  // it has looked everywhere
      }
    }
    return std::nullopt;
  }

 private:
  // A neighbour to go to, in the order in which they are tried.
  struct Choice {
    int32_t open_count = -1;
    int32_t place = -1;  // in targets_
    bool is_before(const Choice& other) const {
      return std::pair(open_count, place) < std::pair(other.open_count, other.place);
    }
  };
  struct Visit {
    int32_t vertex = 0;
    Choice tried;
  };

  // Depth first, to the neighbour with the fewest open neighbours first (Warnsdorff's rule).
  std::optional<std::vector<int32_t>> search() {
    enter(start_);
    while (!path_.empty() && budget_ > 0) {
      check_interruption();
      if (path_.size() == ranks_.size() && closes()) {
        return ranks_of_path();
      }
      const int32_t next = next_choice();
      if (next >= 0) {
        enter(next);
      } else {
        leave();
      }
    }
    while (!path_.empty()) {
      leave();
    }
    return std::nullopt;
  }
  bool closes() const {
    const std::vector<int32_t>& last = targets_[at(path_.back().vertex)];
    return std::ranges::find(last, start_) != last.end();
  }
  int32_t next_choice() {
    Visit& visit = path_.back();
    const std::vector<int32_t>& targets = targets_[at(visit.vertex)];
    std::optional<Choice> best;
    for (std::size_t place = 0; place < targets.size(); ++place) {
      const Choice choice{open_targets_[at(targets[place])], static_cast<int32_t>(place)};
      if (!is_visited_[at(targets[place])] && visit.tried.is_before(choice) &&
          (!best || choice.is_before(*best))) {
        best = choice;
      }
    }
    budget_ -= static_cast<int64_t>(targets.size()) + 1;
    if (!best) {
      return -1;
    }
    visit.tried = *best;
    return targets[at(best->place)];
  }
  void enter(int32_t vertex) {
    path_.push_back({vertex, {}});
    is_visited_[at(vertex)] = true;
    for (const int32_t source : sources_[at(vertex)]) {
      --open_targets_[at(source)];
    }
    budget_ -= static_cast<int64_t>(sources_[at(vertex)].size());
  }
  void leave() {
    const int32_t vertex = path_.back().vertex;
    path_.pop_back();
    is_visited_[at(vertex)] = false;
    for (const int32_t source : sources_[at(vertex)]) {
      ++open_targets_[at(source)];
    }
  }
  std::vector<int32_t> ranks_of_path() const {
    std::vector<int32_t> order;
    for (const Visit& visit : path_) {
      order.push_back(ranks_[at(visit.vertex)]);
    }
    return order;
  }

  std::vector<int32_t> ranks_;  // by vertex
  std::vector<std::vector<int32_t>> targets_, sources_;
  std::vector<int32_t> open_targets_;  // targets not on the path
  std::vector<bool> is_visited_;
  std::vector<Visit> path_;
  int64_t link_count_ = 0;
  int32_t start_ = 0;
  int64_t budget_ = 0;
};

bool has_link(const Topology& topology, NodeId source, NodeId target) {
  return std::ranges::any_of(topology.links_out(source),
                             [&](LinkId link) { return topology.link(link).target == target; });
}

// Whether consecutive ranks, and the last and the first, are joined by links.
bool rank_order_is_cycle(const Topology& topology, std::span<const NodeId> participants) {
  for (std::size_t rank = 0; rank < participants.size(); ++rank) {
    if (!has_link(topology, participants[rank], participants[(rank + 1) % participants.size()])) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<int32_t> grid_snake(std::span<const GridDimension> grid) {
  std::vector<int32_t> path = {0};
  for (const GridDimension& dimension : grid) {
    std::vector<int32_t> longer;
    for (std::size_t k = 0; k < path.size(); ++k) {
      for (int32_t column = 0; column < dimension.size; ++column) {
        longer.push_back(path[k] * dimension.size +
                         (k % 2 == 0 ? column : dimension.size - 1 - column));
      }
    }
    path = std::move(longer);
  }
  return path;
}

std::optional<std::vector<int32_t>> grid_cycle(std::span<const GridDimension> grid) {
  std::vector<GridDimension> dimensions;  // those with an extent
  std::ranges::copy_if(grid, std::back_inserter(dimensions),
                       [](const GridDimension& dimension) { return dimension.size > 1; });
  if (dimensions.empty()) {
    return std::nullopt;
  }
  const std::span<const GridDimension> leading = std::span(dimensions).first(dimensions.size() - 1);
  const int32_t width = dimensions.back().size;
  if (leading.empty() && (width == 2 || dimensions.back().wraps)) {
    return grid_snake(dimensions);
  }
  if (!leading.empty() && width % 2 == 0) {
    return cross_columns(grid_snake(leading), width);
  }
  if (!leading.empty() && node_count(leading) % 2 == 0) {
    return cross_lines(grid_snake(leading), width);
  }
  for (std::size_t last = 0; last < dimensions.size(); ++last) {
    if (dimensions[last].wraps && dimensions[last].size % 2 == 1) {
      const std::vector<GridDimension> moved = with_last(dimensions, last);
      std::vector<int32_t> cycle =
          cross_wrapping(grid_snake(std::span(moved).first(moved.size() - 1)), moved.back().size);
      for (int32_t& number : cycle) {
        number = number_before_move(dimensions, last, number);
      }
      return cycle;
    }
  }
  return std::nullopt;
}

std::vector<int32_t> ring_order(const Topology& topology, std::span<const NodeId> participants) {
  if (are_whole_grid(topology, participants)) {
    const RankOfNode rank_of(participants);
    std::vector<int32_t> order = grid_cycle(topology.grid()).value_or(grid_snake(topology.grid()));
    for (int32_t& node : order) {
      node = rank_of(NodeId{node});
    }
    return order;
  }
  std::vector<int32_t> order(participants.size());
  std::iota(order.begin(), order.end(), 0);
  if (rank_order_is_cycle(topology, participants)) {
    return order;
  }
  if (std::optional<std::vector<int32_t>> cycle = CycleSearch(topology, participants).run()) {
    return *std::move(cycle);
  }
  const bool is_switched = std::ranges::none_of(
      participants, [&](NodeId node) { return passes_through(topology.node(node)); });
  if (!is_switched) {
    return order;
  }
  const Result<Hierarchy> hierarchy = find_hierarchy(topology, participants);
  if (!hierarchy || hierarchy->has_uneven) {
    return nested_order(topology, participants);
  }
  if (hierarchy->level_count() > 1) {
    std::vector<GridDimension> levels;
    for (const int32_t size : hierarchy->sizes) {
      levels.insert(levels.begin(), {size, false});
    }
    order = grid_snake(levels);
    for (int32_t& place : order) {
      place = hierarchy->rank_at[at(place)];
    }
  }
  return order;
}

std::vector<int32_t> published_ring_order(const Topology& topology,
                                          std::span<const NodeId> participants) {
  const std::optional<Leaves> leaves = find_leaves(topology, participants);
  if (!leaves || leaves->switch_count() < 2) {
    return ring_order(topology, participants);
  }
  std::vector<int32_t> order;
  const int32_t each = leaves->ranks_per_switch(), half = leaves->switch_count() / 2;
  if (!are_bigraph(topology, *leaves)) {
    for (int32_t slot = 0; slot < each; ++slot) {
      for (const std::vector<int32_t>& ranks : leaves->ranks) {
        order.push_back(ranks[at(slot)]);
      }
    }
    return order;
  }
  // A slot's walk goes 2·slot + 1 lower switches on at a time.
  for (int32_t slot = 0; slot < each; ++slot) {
    if (each > half || std::gcd(2 * slot + 1, half) != 1) {
      return ring_order(topology, participants);
    }
  }
  int32_t lower = 0;
  for (int32_t slot = 0; slot < each; ++slot) {
    for (int32_t pair = 0; pair < half; ++pair) {
      const int32_t upper = (lower + slot) % half;
      order.push_back(leaves->ranks[at(lower)][at(slot)]);
      order.push_back(leaves->ranks[at(half + upper)][at(slot)]);
      lower = (upper + slot + 1) % half;
    }
  }
  return order;
}

bool is_natural_ring(const Topology& topology, std::span<const NodeId> participants) {
  const auto count = count_of(participants);
  if (participants.size() != topology.nodes().size() ||
      !rank_order_is_cycle(topology, participants)) {
    return false;
  }
  for (int32_t rank = 0; rank < count; ++rank) {
    const NodeId node = participants[at(rank)];
    for (const LinkId link : topology.links_out(node)) {
      const NodeId target = topology.link(link).target;
      if (target != participants[at((rank + 1) % count)] &&
          target != participants[at((rank + count - 1) % count)]) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace pleach
