// ChunkGrid: exact integer boundaries of chunks and segments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

// `count` chunks with integer weights. Chunk c of a space of n elements covers
// [floor(n·cum[c]/total), floor(n·cum[c+1]/total)): exact, so that refinements agree.
class ChunkGrid {
 public:
  ChunkGrid() = default;
  // All weights 1; no memory. count ≥ 1.
  static ChunkGrid uniform(int32_t count);
  // One chunk per weight. Precondition: valid(weights).
  static ChunkGrid weighted(std::vector<int64_t> weights);
  // Whether there is at least one weight, all are > 0, and number and sum fit int32 and int64.
  static bool valid(std::span<const int64_t> weights);

  int32_t count() const { return count_; }
  bool is_uniform() const { return cumulative_.empty(); }
  int64_t total() const { return cumulative_.empty() ? count_ : cumulative_.back(); }
  int64_t cumulative(int32_t chunk) const {
    return cumulative_.empty() ? chunk : cumulative_[at(chunk)];
  }
  int64_t weight(int32_t chunk) const { return cumulative(chunk + 1) - cumulative(chunk); }
  // First element of chunk c in a space of `element_count`; boundary(count()) is the end.
  int64_t boundary(int32_t chunk, int64_t element_count) const;
  // The chunk that starts at weight `position` (count() for total()), or -1 when no boundary lies
  // there.
  int32_t chunk_at(int64_t position) const;

  bool operator==(const ChunkGrid&) const = default;

 private:
  int32_t count_ = 1;
  std::vector<int64_t> cumulative_;  // empty when uniform, else count_ + 1 entries from 0
};

// Segments of a chunk, at most.
inline constexpr int32_t kMostSegments = 65'536;

// First element of segment k of S within the chunk [begin, end): begin + floor((end-begin)·k/S).
inline int64_t segment_boundary(int64_t begin, int64_t end, int32_t segment,
                                int32_t segment_count) {
  const __int128 product = static_cast<__int128>(end - begin) * segment;
  return begin + static_cast<int64_t>(product / segment_count);
}

}  // namespace pleach
