#include "pleach/synthesis/hierarchy.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/collective/rank_of_node.h"
#include "pleach/topology/grids.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

constexpr int32_t kDistanceLimit = 4096;  // ranks; of more, distances are not compared

// Sets that grow together.
class Sets {
 public:
  explicit Sets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t find(std::size_t element) {
    while (parent_[element] != element) {
      element = parent_[element] = parent_[parent_[element]];
    }
    return element;
  }
  void join(std::size_t first, std::size_t second) { parent_[find(first)] = find(second); }

 private:
  std::vector<std::size_t> parent_;
};

// The group of each rank; groups are numbered in the order of their first ranks.
using Partition = std::vector<int32_t>;

Partition numbered(std::size_t rank_count, const std::function<std::size_t(std::size_t)>& set_of) {
  std::unordered_map<std::size_t, int32_t> number_of;
  Partition partition;
  for (std::size_t rank = 0; rank < rank_count; ++rank) {
    partition.push_back(number_of.emplace(set_of(rank), count_of(number_of)).first->second);
  }
  return partition;
}

int32_t group_count(const Partition& partition) {
  return 1 + *std::ranges::max_element(partition);
}

std::vector<int32_t> sizes_of(const Partition& partition) {
  std::vector<int32_t> sizes(at(group_count(partition)));
  for (const int32_t group : partition) {
    ++sizes[at(group)];
  }
  return sizes;
}

// Ranks that links of each bandwidth and more connect, for every bandwidth from the largest on.
void add_by_bandwidth(const Topology& topology, std::span<const NodeId> participants,
                      std::vector<Partition>& partitions) {
  const RankOfNode rank_of(participants);
  const auto takes_part = [&](NodeId node) {
    return rank_of(node) != kNoRank || passes_through(topology.node(node));
  };
  std::set<int64_t, std::greater<>> bandwidths;
  for (const Link& link : topology.links()) {
    bandwidths.insert(link.bandwidth_bytes_per_s);
  }
  constexpr std::size_t kMost = 64;  // bandwidths worth looking at
  for (const int64_t least : bandwidths) {
    if (bandwidths.size() > kMost) {
      return;
    }
    Sets sets(topology.nodes().size());
    for (const Link& link : topology.links()) {
      check_interruption();
      if (link.bandwidth_bytes_per_s >= least && takes_part(link.source) &&
          takes_part(link.target)) {
        sets.join(link.source.index(), link.target.index());
      }
    }
    partitions.push_back(numbered(participants.size(), [&](std::size_t rank) {
      return sets.find(participants[rank].index());
    }));
  }
}

// Ranks within so many links of each other, for every such number.
void add_by_distance(const Topology& topology, std::span<const NodeId> participants,
                     std::vector<Partition>& partitions) {
  const std::size_t count = participants.size();
  if (count_of(participants) > kDistanceLimit) {
    return;
  }
  std::vector<std::vector<int32_t>> distances(count);
  std::set<int32_t> known;
  for (std::size_t target = 0; target < count; ++target) {
    Router router(topology);  // keeps what it found; here each target is asked for once
    const std::vector<int32_t>& to = router.distances_to(participants[target]);
    for (std::size_t source = 0; source < count; ++source) {
      distances[target].push_back(to[participants[source].index()]);
      known.insert(source == target ? 1 : distances[target].back());
    }
  }
  for (const int32_t most : known) {
    Sets sets(count);
    for (std::size_t target = 0; target < count; ++target) {
      for (std::size_t source = 0; source < count; ++source) {
        if (distances[target][source] >= 0 && distances[target][source] <= most) {
          sets.join(source, target);
        }
      }
    }
    partitions.push_back(numbered(count, [&](std::size_t rank) { return sets.find(rank); }));
    if (group_count(partitions.back()) == 1) {
      return;
    }
  }
}

bool holds(const Partition& coarse, const Partition& fine) {
  std::vector<int32_t> around(at(group_count(fine)), -1);
  for (std::size_t rank = 0; rank < fine.size(); ++rank) {
    int32_t& group = around[at(fine[rank])];
    if (group >= 0 && group != coarse[rank]) {
      return false;
    }
    group = coarse[rank];
  }
  return true;
}

// The dimensions of the grid that the participants are the whole of.
std::optional<Hierarchy> grid_hierarchy(const Topology& topology,
                                        std::span<const NodeId> participants) {
  if (!are_whole_grid(topology, participants)) {
    return std::nullopt;
  }
  Hierarchy hierarchy;
  hierarchy.is_grid = true;
  for (std::size_t dimension = topology.grid().size(); dimension-- > 0;) {
    if (const int32_t size = topology.grid()[dimension].size; size > 1) {
      hierarchy.sizes.push_back(size);
    }
  }
  const RankOfNode rank_of(participants);
  for (int32_t node = 0; node < count_of(participants); ++node) {
    hierarchy.rank_at.push_back(rank_of(NodeId{node}));
  }
  return hierarchy;
}

// Those of most groups first.
std::vector<Partition> partitions_of(const Topology& topology,
                                     std::span<const NodeId> participants) {
  std::vector<Partition> partitions;
  add_by_bandwidth(topology, participants, partitions);
  add_by_distance(topology, participants, partitions);
  std::ranges::stable_sort(partitions, std::greater<>(), group_count);
  return partitions;
}

// The ranks; those of one group of a level stand together, the last level decides.
std::vector<int32_t> sorted_by(std::span<const Partition> levels, std::size_t rank_count) {
  std::vector<int32_t> ranks(rank_count);
  std::iota(ranks.begin(), ranks.end(), 0);
  for (const Partition& level : levels) {
    std::ranges::stable_sort(ranks, {}, [&](int32_t rank) { return level[at(rank)]; });
  }
  return ranks;
}

}  // namespace

std::vector<int32_t> nested_order(const Topology& topology, std::span<const NodeId> participants) {
  return sorted_by(partitions_of(topology, participants), participants.size());
}

Result<Hierarchy> find_hierarchy(const Topology& topology, std::span<const NodeId> participants) {
  if (std::optional<Hierarchy> grid = grid_hierarchy(topology, participants)) {
    return *std::move(grid);
  }
  std::vector<Partition> partitions = partitions_of(topology, participants);
  const int32_t rank_count = count_of(participants);
  std::vector<Partition> levels;  // from the innermost on
  std::optional<std::pair<int32_t, int32_t>> uneven;
  for (Partition& partition : partitions) {
    const int32_t groups = group_count(partition);
    const std::vector<int32_t> sizes = sizes_of(partition);
    const auto [least, most] = std::ranges::minmax(sizes);
    if (groups == 1 || groups == rank_count) {
      continue;
    }
    if (least != most) {
      uneven = uneven.value_or(std::pair(most, least));
    } else if (levels.empty() ||
               (groups < group_count(levels.back()) && holds(partition, levels.back()))) {
      levels.push_back(std::move(partition));
    }
  }
  if (levels.empty() && uneven) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("the ranks of {} form groups of {} and of {}: it takes groups of one "
                             "size",
                             topology.name(), uneven->first, uneven->second)};
  }
  Hierarchy hierarchy;
  int32_t inside = 1;
  for (const Partition& level : levels) {
    hierarchy.sizes.push_back(rank_count / group_count(level) / inside);
    inside = rank_count / group_count(level);
  }
  hierarchy.sizes.push_back(rank_count / inside);
  hierarchy.rank_at = sorted_by(levels, participants.size());
  hierarchy.has_uneven = uneven.has_value();
  return hierarchy;
}

Result<Hierarchy> parse_hierarchy(const std::string& sizes, int32_t rank_count) {
  Hierarchy hierarchy;
  int64_t product = 1;
  for (const std::string_view piece : split(sizes, 'x')) {
    PLEACH_ASSIGN(size, parse_integer(piece, "size of a level", 1, 1 << 20));
    product = std::min<int64_t>(product * size, 1 << 30);
    hierarchy.sizes.push_back(static_cast<int32_t>(size));
  }
  if (product != rank_count) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("levels of {} ranks, not of {}", sizes, rank_count)};
  }
  hierarchy.rank_at.resize(at(rank_count));
  std::iota(hierarchy.rank_at.begin(), hierarchy.rank_at.end(), 0);
  return hierarchy;
}

}  // namespace pleach
