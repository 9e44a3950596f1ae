#include "pleach/collective/chunk_grid.h"

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {

ChunkGrid ChunkGrid::uniform(int32_t count) {
  PLEACH_CHECK(count >= 1, "a grid has at least one chunk");
  ChunkGrid grid;
  grid.count_ = count;
  return grid;
}

bool ChunkGrid::valid(std::span<const int64_t> weights) {
  if (weights.empty() || weights.size() > static_cast<std::size_t>(INT32_MAX)) {
    return false;
  }
  int64_t sum = 0;
  for (const int64_t weight : weights) {
    if (weight <= 0 || weight > INT64_MAX - sum) {
      return false;
    }
    sum += weight;
  }
  return true;
}

ChunkGrid ChunkGrid::weighted(std::vector<int64_t> weights) {
  PLEACH_CHECK(valid(weights), "weights are positive and their sum fits");
  ChunkGrid grid;
  grid.count_ = count_of(weights);
  grid.cumulative_ = std::move(weights);
  int64_t sum = 0;
  for (int64_t& entry : grid.cumulative_) {
    sum += std::exchange(entry, sum);
  }
  grid.cumulative_.push_back(sum);
  return grid;
}

int64_t ChunkGrid::boundary(int32_t chunk, int64_t element_count) const {
  return static_cast<int64_t>(static_cast<__int128>(element_count) * cumulative(chunk) / total());
}

int32_t ChunkGrid::chunk_at(int64_t position) const {
  if (position < 0 || position > total()) {
    return -1;
  }
  if (is_uniform()) {
    return static_cast<int32_t>(position);
  }
  const auto found = std::lower_bound(cumulative_.begin(), cumulative_.end(), position);
  return *found == position ? static_cast<int32_t>(found - cumulative_.begin()) : -1;
}

}  // namespace pleach
