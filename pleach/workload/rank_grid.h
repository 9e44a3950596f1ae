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
  // Ranks that differ in one coordinate only come in the same order whatever the others are.
  const std::vector<int32_t>& ranks() const { return ranks_; }
  Coordinates coordinates(int32_t rank) const;  // of one of ranks()

  // All ranks, those together that agree in `key`, ascending; groups ordered by their first rank.
  template <typename Key>
  std::vector<std::vector<int32_t>> groups(Key key) const;

  static constexpr std::size_t index(ParallelDimension dimension) { return at(dimension); }

 private:
  std::vector<std::vector<int32_t>> collect(const std::vector<Coordinates>& keys) const;

  std::array<int32_t, 4> sizes_;
  std::array<ParallelDimension, 4> order_;
  std::vector<int32_t> ranks_;     // by place, of which order_ is the numbering
  std::vector<int32_t> place_of_;  // by rank; −1: it does nothing
};

template <typename Key>
std::vector<std::vector<int32_t>> RankGrid::groups(Key key) const {
  std::vector<Coordinates> keys;
  keys.reserve(ranks_.size());
  for (const int32_t rank : ranks_) {
    keys.push_back(key(coordinates(rank)));
  }
  return collect(keys);
}

}  // namespace pleach
