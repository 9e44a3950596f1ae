// ReadyRanges: which of some ranges have all their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pleach/policy/profile.h"

namespace pleach {

// Counts the layers whose gradients each range still waits for: one, unless an atom holds tensors
// of several layers. Starts over with every iteration by itself. Not thread safe.
class ReadyRanges {
 public:
  ReadyRanges(const ParameterSpace& space, std::vector<ByteRange> ranges);
  // Each layer once an iteration. The ranges that have all gradients with it, by index, ascending;
  // valid until the next call.
  std::span<const std::size_t> gradient_ready(int32_t layer);
  const ByteRange& range(std::size_t index) const { return ranges_[index]; }

 private:
  std::vector<ByteRange> ranges_;
  std::vector<std::vector<std::size_t>> ranges_of_;  // by layer
  std::vector<int32_t> layers_of_;                   // by range: how many
  std::vector<int32_t> missing_;                     // of them, in this iteration
  std::vector<std::size_t> ready_;
};

}  // namespace pleach
