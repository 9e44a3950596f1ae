// Random schedules in the symmetric form: correct ones, on grids whose weights are uneven.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"
#include "tests/support/counterexamples.h"
#include "tests/support/random_schedules.h"

namespace pleach::support {

inline constexpr std::array kSymmetricKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
    CollectiveKind::kAllToAll};

// Sums of `total` in `count` parts of at least one.
inline std::vector<int64_t> random_parts(int32_t total, int32_t count, Rng& rng) {
  std::vector<int64_t> parts(at(count), 1);
  for (int32_t left = total - count; left > 0; --left) {
    ++parts[rng.below(parts.size())];
  }
  return parts;
}

// Weights of the blocks of rank 0, and the same moved to all others. The chunks of rank 0's blocks
// are sometimes dealt out unevenly among them, which the symmetric form does not allow; the grid
// then keeps to all of its other rules.
inline std::vector<int64_t> random_symmetric_weights(const Schedule& schedule, int32_t block_chunks,
                                                     Rng& rng) {
  const int32_t ranks = schedule.rank_count();
  const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
  const int32_t blocks = is_exchange ? ranks : 1;
  const int32_t total = 2 * block_chunks + pick(rng, 3);
  std::vector<int64_t> row;
  const bool is_uneven = is_exchange && block_chunks > 1 && rng.below(2) == 0;
  for (int32_t block = 0; block < blocks; ++block) {
    const int32_t extra = !is_uneven || block > 1 ? 0 : (block == 0 ? 1 : -1);
    const auto parts = random_parts(total, block_chunks + extra, rng);
    row.insert(row.end(), parts.begin(), parts.end());
  }
  const Translation translation(schedule.symmetry->dimensions);
  std::vector<int64_t> weights;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    for (int32_t block = 0; block < blocks; ++block) {
      const int32_t from = is_exchange ? translation.subtract(block, rank) : 0;
      const auto first = row.begin() + from * block_chunks;
      weights.insert(weights.end(), first, first + block_chunks);
    }
  }
  return weights;
}

// The transfers of chunks [first, first + count) of rank 0's blocks, as random trees: reduced to a
// rank, and spread from there. One arrival at a rank in a step.
class RandomTree {
 public:
  RandomTree(const Schedule& schedule, int32_t destination, Rng& rng)
      : collective_(schedule.collective), rng_(rng), order_(at(schedule.rank_count())) {
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t left = order_.size(); left > 1; --left) {
      std::swap(order_[left - 1], order_[rng.below(left)]);
    }
    if (collective_ != CollectiveKind::kAllReduce) {
      std::swap(*std::find(order_.begin(), order_.end(), 0), order_[0]);
    }
    if (collective_ == CollectiveKind::kAllToAll) {  // no further than where it goes
      order_.erase(std::find(order_.begin(), order_.end(), destination) + 1, order_.end());
    }
  }

  std::vector<Move> grow(int32_t first, int32_t count) {
    const bool is_exchange = collective_ == CollectiveKind::kAllToAll;
    std::vector<std::size_t> parent(order_.size());
    for (std::size_t i = 1; i < order_.size(); ++i) {
      parent[i] = is_exchange ? i - 1 : rng_.below(i);
    }
    std::vector<int32_t> ready(order_.size(), 0);
    std::vector<Move> moves;
    if (reduces(collective_)) {
      for (std::size_t i = order_.size() - 1; i > 0; --i) {
        std::set<int32_t>& taken = taken_[parent[i]];
        int32_t step = ready[i] + pick(rng_, 2);
        for (; !taken.insert(step).second; ++step) {
        }
        moves.push_back({first, count, order_[i], order_[parent[i]], kReduce, step});
        ready[parent[i]] = std::max(ready[parent[i]], step + 1);
      }
      std::fill(ready.begin() + 1, ready.end(), ready[0]);
    }
    for (std::size_t i = 1; i < order_.size() && collective_ != CollectiveKind::kReduceScatter;
         ++i) {
      const int32_t step = ready[parent[i]] + pick(rng_, 2);
      moves.push_back({first, count, order_[parent[i]], order_[i], kCopy, step});
      ready[i] = step + 1;
    }
    return moves;
  }

 private:
  CollectiveKind collective_;
  Rng& rng_;
  std::vector<int32_t> order_;
  std::map<std::size_t, std::set<int32_t>> taken_;  // steps with an arrival, by place in the order
};

// Correct, and well-formed but for some grids of all_to_all.
inline Schedule random_symmetric_schedule(const std::vector<int32_t>& dimensions, Rng& rng) {
  const int32_t ranks = Translation(dimensions).order();
  ScheduleShape shape{.collective = kSymmetricKinds[rng.below(kSymmetricKinds.size())],
                      .rank_count = ranks};
  Schedule schedule = make_schedule(shape, {});
  schedule.symmetry = Symmetry{dimensions};
  const bool is_exchange = shape.collective == CollectiveKind::kAllToAll;
  const int32_t block_chunks = 1 + pick(rng, 3);
  std::vector<Move> moves;
  for (int32_t block = 0; block < (is_exchange ? ranks : 1); ++block) {
    for (int32_t chunk = 0, count = 0; chunk < block_chunks; chunk += count) {
      count = 1 + pick(rng, block_chunks - chunk);
      if (!is_exchange || block > 0) {
        const auto grown =
            RandomTree(schedule, block, rng).grow(block * block_chunks + chunk, count);
        moves.insert(moves.end(), grown.begin(), grown.end());
      }
    }
  }
  shape.chunk_count = block_chunks * ranks * (is_exchange ? ranks : 1);
  schedule = make_schedule(shape, moves);
  schedule.period = 1 + pick(rng, schedule.step_count());
  schedule.symmetry = Symmetry{dimensions};
  if (rng.below(4) != 0) {
    schedule.chunks = ChunkGrid::weighted(random_symmetric_weights(schedule, block_chunks, rng));
  }
  return schedule;
}

}  // namespace pleach::support
