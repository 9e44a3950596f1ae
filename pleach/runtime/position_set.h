// PositionSet: positions of an order, the smallest first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

// A set of numbers in [0, size): a bitmap, over it one of the words that are not empty, and so on
// up to a single word. Every call costs O(log64 size) but clear(), O(size / 64); none allocates.
class PositionSet {
 public:
  explicit PositionSet(std::size_t size) {
    while (size > 0) {
      size = (size + kBits - 1) / kBits;
      levels_.emplace_back(size, 0);
      size = size > 1 ? size : 0;
    }
  }

  bool empty() const { return levels_.empty() || levels_.back().front() == 0; }

  // Precondition: not empty().
  int32_t front() const {
    std::size_t position = 0;
    for (std::size_t level = levels_.size(); level > 0; --level) {
      const uint64_t word = levels_[level - 1][position];
      position = position * kBits + static_cast<std::size_t>(std::countr_zero(word));
    }
    return static_cast<int32_t>(position);
  }

  void insert(int32_t position) {
    auto place = at(position);
    for (std::vector<uint64_t>& level : levels_) {
      uint64_t& word = level[place / kBits];
      const bool was_empty = word == 0;
      word |= uint64_t{1} << place % kBits;
      if (!was_empty) {
        return;
      }
      place /= kBits;
    }
  }

  void erase(int32_t position) {
    auto place = at(position);
    for (std::vector<uint64_t>& level : levels_) {
      uint64_t& word = level[place / kBits];
      word &= ~(uint64_t{1} << place % kBits);
      if (word != 0) {
        return;
      }
      place /= kBits;
    }
  }

  void clear() {
    for (std::vector<uint64_t>& level : levels_) {
      std::fill(level.begin(), level.end(), 0);
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::vector<uint64_t>> levels_;  // the positions first
};

}  // namespace pleach
