// Correct schedules written by hand, for tests of what runs schedules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"

namespace pleach::support {

// Ring: all_reduce, reduce_scatter or all_gather in n - 1 steps per phase.
inline Schedule ring_schedule(CollectiveKind collective, int32_t ranks, int32_t period = 0) {
  std::vector<Move> moves;
  int32_t step = 0;
  // Chunk c ends its reduction at rank c, so that it is that rank's shard.
  if (collective != CollectiveKind::kAllGather) {
    for (int32_t s = 0; s < ranks - 1; ++s, ++step) {
      for (int32_t chunk = 0; chunk < ranks; ++chunk) {
        const int32_t source = (chunk + 1 + s) % ranks;
        moves.push_back({chunk, 1, source, (source + 1) % ranks, kReduce, step});
      }
    }
  }
  if (collective != CollectiveKind::kReduceScatter) {
    for (int32_t s = 0; s < ranks - 1; ++s, ++step) {
      for (int32_t chunk = 0; chunk < ranks; ++chunk) {
        const int32_t source = (chunk + s) % ranks;
        moves.push_back({chunk, 1, source, (source + 1) % ranks, kCopy, step});
      }
    }
  }
  return make_schedule(
      {.collective = collective, .rank_count = ranks, .chunk_count = ranks, .period = period},
      moves);
}

// The ring all_reduce in symmetric form: the transfers of chunk 0 and their translates.
inline Schedule symmetric_ring_schedule(int32_t ranks, int32_t period = 0) {
  Schedule schedule = ring_schedule(CollectiveKind::kAllReduce, ranks, period);
  std::erase_if(schedule.transfers,
                [](const Transfer& transfer) { return transfer.first_chunk != 0; });
  schedule.symmetry = Symmetry{{ranks}};
  return schedule;
}

// Everybody sends to everybody: reduce_scatter and then all_gather for all_reduce, blocks for
// all_to_all.
inline Schedule direct_schedule(CollectiveKind collective, int32_t ranks) {
  const bool is_exchange = collective == CollectiveKind::kAllToAll;
  std::vector<Move> moves;
  for (int32_t source = 0; source < ranks; ++source) {
    for (int32_t target = 0; target < ranks; ++target) {
      if (source == target) {
        continue;
      }
      if (is_exchange) {
        moves.push_back({source * ranks + target, 1, source, target, kCopy, 0});
        continue;
      }
      const bool gathers = collective != CollectiveKind::kReduceScatter;
      const bool reduces = collective != CollectiveKind::kAllGather;
      if (reduces) {
        moves.push_back({target, 1, source, target, kReduce, 0});
      }
      if (gathers) {
        moves.push_back({source, 1, source, target, kCopy, reduces ? 1 : 0});
      }
    }
  }
  return make_schedule({.collective = collective,
                        .rank_count = ranks,
                        .chunk_count = is_exchange ? ranks * ranks : ranks},
                       moves);
}

// Recursive halving and doubling on a power of two of ranks; messages are intervals of chunks.
inline Schedule halving_schedule(int32_t ranks) {
  std::vector<Move> moves;
  int32_t step = 0;
  for (int32_t half = ranks / 2; half >= 1; half /= 2, ++step) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      const int32_t peer = rank ^ half;
      const int32_t first = peer / half * half;  // the half that the peer keeps
      moves.push_back({first, half, rank, peer, kReduce, step});
    }
  }
  for (int32_t half = 1; half < ranks; half *= 2, ++step) {
    for (int32_t rank = 0; rank < ranks; ++rank) {
      moves.push_back({rank / half * half, half, rank, rank ^ half, kCopy, step});
    }
  }
  return make_schedule({.rank_count = ranks, .chunk_count = ranks}, moves);
}

// Random trees: every chunk is reduced to a random rank (or the root) and spread from there, or
// moved up or down (gather, scatter: chunks are a multiple of ranks), as the collective needs, at
// random steps and with a random period.
inline Schedule random_tree_schedule(CollectiveKind collective, int32_t ranks, int32_t chunks,
                                     Rng& rng) {
  const auto below = [&rng](int32_t bound) {
    return static_cast<int32_t>(rng.below(static_cast<uint64_t>(bound)));
  };
  ScheduleShape shape{.collective = collective, .rank_count = ranks, .chunk_count = chunks};
  if (has_root(collective)) {
    shape.root = below(ranks);
  }
  std::vector<Move> moves;
  int32_t step_count = 1;
  for (int32_t chunk = 0; chunk < chunks; ++chunk) {
    std::vector<int32_t> order(at(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[rng.below(left)]);
    }
    if (has_root(collective)) {
      std::swap(*std::find(order.begin(), order.end(), shape.root), order[0]);
    }
    // order[i] hangs below an earlier one.
    std::vector<std::size_t> parent(order.size());
    std::vector<int32_t> up(order.size(), 0);  // first step at which its subtree has come in
    for (std::size_t i = 1; i < order.size(); ++i) {
      parent[i] = rng.below(i);
    }
    if (has_parts(collective)) {
      const auto owner = std::find(order.begin(), order.end(), chunk / (chunks / ranks));
      std::vector<int32_t> path = {*owner};  // from the owner to the root
      for (auto i = static_cast<std::size_t>(owner - order.begin()); i > 0;) {
        i = parent[i];
        path.push_back(order[i]);
      }
      if (is_from_root(collective)) {
        std::ranges::reverse(path);
      }
      int32_t step = -1;
      for (std::size_t i = 1; i < path.size(); ++i) {
        step += 1 + below(2);
        moves.push_back({chunk, 1, path[i - 1], path[i], kCopy, step});
      }
      step_count = std::max(step_count, step + 1);
      continue;
    }
    if (collective != CollectiveKind::kBroadcast) {
      for (std::size_t i = order.size() - 1; i > 0; --i) {
        const int32_t step = up[i] + below(2);
        moves.push_back({chunk, 1, order[i], order[parent[i]], kReduce, step});
        up[parent[i]] = std::max(up[parent[i]], step + 1);
      }
    }
    std::vector<int32_t> down(order.size(), up[0]);
    if (collective != CollectiveKind::kReduce) {
      for (std::size_t i = 1; i < order.size(); ++i) {
        const int32_t step = down[parent[i]] + below(2);
        moves.push_back({chunk, 1, order[parent[i]], order[i], kCopy, step});
        down[i] = step + 1;
      }
    }
    step_count = std::max({step_count, up[0], *std::max_element(down.begin(), down.end())});
  }
  shape.period = 1 + below(step_count);
  return make_schedule(shape, moves);
}

}  // namespace pleach::support
