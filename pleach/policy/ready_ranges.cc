#include "pleach/policy/ready_ranges.h"

#include <utility>

#include "pleach/base/index.h"

namespace pleach {

ReadyRanges::ReadyRanges(const ParameterSpace& space, std::vector<ByteRange> ranges)
    : ranges_(std::move(ranges)), ranges_of_(at(space.layer_count())), layers_of_(ranges_.size()) {
  for (std::size_t index = 0; index < ranges_.size(); ++index) {
    for (int32_t layer = space.layer_of(ranges_[index].begin);
         layer < space.layer_count() && space.layer(layer).begin < ranges_[index].end; ++layer) {
      if (space.layer(layer).size() > 0) {
        ranges_of_[at(layer)].push_back(index);
        ++layers_of_[index];
      }
    }
  }
  missing_ = layers_of_;
}

std::span<const std::size_t> ReadyRanges::gradient_ready(int32_t layer) {
  ready_.clear();
  for (const std::size_t index : ranges_of_[at(layer)]) {
    if (--missing_[index] == 0) {
      missing_[index] = layers_of_[index];
      ready_.push_back(index);
    }
  }
  return ready_;
}

}  // namespace pleach
