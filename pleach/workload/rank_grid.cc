#include "pleach/workload/rank_grid.h"

#include <map>

#include "pleach/base/index.h"

namespace pleach {

RankGrid::RankGrid(const Strategy& strategy)
    : sizes_{strategy.tensor, strategy.sequence, strategy.pipeline, strategy.data},
      placement_(strategy.placement) {}

Coordinates RankGrid::coordinates(int32_t rank) const {
  Coordinates digits = {};
  for (const ParallelDimension dimension : placement_) {
    digits[index(dimension)] = rank % size(dimension);
    rank /= size(dimension);
  }
  return digits;
}

std::vector<std::vector<int32_t>> RankGrid::collect(const std::vector<Coordinates>& keys) const {
  std::vector<std::vector<int32_t>> groups;
  std::map<Coordinates, std::size_t> group_of;
  for (int32_t rank = 0; rank < rank_count(); ++rank) {
    const auto [found, fresh] = group_of.try_emplace(keys[at(rank)], groups.size());
    if (fresh) {
      groups.emplace_back();
    }
    groups[found->second].push_back(rank);
  }
  return groups;
}

}  // namespace pleach
