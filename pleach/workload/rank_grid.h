// RankGrid: which rank has which coordinates under a strategy's placement.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/workload/strategy.h"

namespace pleach {

// By ParallelDimension.
using Coordinates = std::array<int32_t, 4>;

class RankGrid {
 public:
  explicit RankGrid(const Strategy& strategy);

  int32_t size(ParallelDimension dimension) const { return sizes_[index(dimension)]; }
  int32_t rank_count() const { return sizes_[0] * sizes_[1] * sizes_[2] * sizes_[3]; }
  Coordinates coordinates(int32_t rank) const;

  // All ranks, those together that agree in `key`; groups ordered by their first rank.
  template <typename Key>
  std::vector<std::vector<int32_t>> groups(Key key) const;

  static constexpr std::size_t index(ParallelDimension dimension) { return at(dimension); }

 private:
  std::vector<std::vector<int32_t>> collect(const std::vector<Coordinates>& keys) const;

  std::array<int32_t, 4> sizes_;
  std::array<ParallelDimension, 4> placement_;
};

template <typename Key>
std::vector<std::vector<int32_t>> RankGrid::groups(Key key) const {
  std::vector<Coordinates> keys;
  keys.reserve(at(rank_count()));
  for (int32_t rank = 0; rank < rank_count(); ++rank) {
    keys.push_back(key(coordinates(rank)));
  }
  return collect(keys);
}

}  // namespace pleach
