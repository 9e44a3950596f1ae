#include "pleach/workload/rank_grid.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {

RankGrid::RankGrid(const Strategy& strategy)
    : sizes_{strategy.tensor, strategy.sequence, strategy.pipeline, strategy.data},
      order_(strategy.rank_of_place.empty() ? strategy.placement : Strategy().placement),
      ranks_(strategy.rank_of_place),
      place_of_(at(strategy.rank_end()), -1) {
  if (ranks_.empty()) {
    ranks_.resize(at(strategy.rank_count()));
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  for (std::size_t place = 0; place < ranks_.size(); ++place) {
    place_of_[at(ranks_[place])] = static_cast<int32_t>(place);
  }
}

Coordinates RankGrid::coordinates(int32_t rank) const {
  Coordinates digits = {};
  int32_t place = place_of_[at(rank)];
  for (const ParallelDimension dimension : order_) {
    digits[index(dimension)] = place % size(dimension);
    place /= size(dimension);
  }
  return digits;
}

std::vector<std::vector<int32_t>> RankGrid::collect(const std::vector<Coordinates>& keys) const {
  std::map<Coordinates, std::vector<int32_t>> by_key;
  for (std::size_t place = 0; place < keys.size(); ++place) {
    by_key[keys[place]].push_back(ranks_[place]);
  }
  std::vector<std::vector<int32_t>> groups;
  groups.reserve(by_key.size());
  for (auto& [key, group] : by_key) {
    std::ranges::sort(group);
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups);
  return groups;
}

}  // namespace pleach
