// Random schedules: well-formed ones out of nothing, and mutants of given ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/schedule.h"
#include "tests/support/counterexamples.h"

namespace pleach::support {

// Whether PLEACH_LONG is set.
inline bool is_long() {
  return std::getenv("PLEACH_LONG") != nullptr;
}

// How often a random test repeats: ten times as often when PLEACH_LONG is set.
inline int32_t repeated(int32_t count) {
  return is_long() ? 10 * count : count;
}

inline int32_t pick(Rng& rng, int32_t bound) {
  return static_cast<int32_t>(rng.below(static_cast<uint64_t>(bound)));
}

// Whether the form allows both: of two arrivals of a chunk in one step both reduce, from two ranks.
inline bool compatible(const Move& left, const Move& right) {
  const bool share_chunk = left.first_chunk < right.first_chunk + right.chunk_count &&
                           right.first_chunk < left.first_chunk + left.chunk_count;
  if (!share_chunk || left.target != right.target || left.step != right.step) {
    return true;
  }
  return left.op == kReduce && right.op == kReduce && left.source != right.source;
}

// Every chunk in pieces, whose weights `cut` gives, with the transfers that follow.
inline Schedule refine(Schedule schedule, const std::vector<int64_t>& cut) {
  const auto pieces = count_of(cut);
  std::vector<int64_t> weights;
  for (int32_t chunk = 0; chunk < schedule.chunks.count(); ++chunk) {
    for (const int64_t weight : cut) {
      weights.push_back(schedule.chunks.weight(chunk) * weight);
    }
  }
  schedule.chunks = ChunkGrid::weighted(std::move(weights));
  for (Transfer& transfer : schedule.transfers) {
    transfer.first_chunk *= pieces;
    transfer.chunk_count *= pieces;
  }
  return schedule;
}

struct RandomSchedule {
  int32_t most_ranks = 4;
  int32_t most_steps = 4;
  int32_t most_moves = 12;
};

// Well-formed; its values are mostly wrong. One or two chunks per part of the buffer.
inline Schedule random_schedule(const RandomSchedule& limits, Rng& rng) {
  constexpr std::array kKinds = {CollectiveKind::kAllReduce, CollectiveKind::kReduce,
                                 CollectiveKind::kBroadcast, CollectiveKind::kReduceScatter,
                                 CollectiveKind::kGather,    CollectiveKind::kScatter};
  ScheduleShape shape;
  shape.collective = kKinds[rng.below(kKinds.size())];
  shape.rank_count = 2 + pick(rng, limits.most_ranks - 1);
  shape.chunk_count = 1 + pick(rng, 2);
  shape.chunk_count *= static_cast<int32_t>(part_count(shape.collective, shape.rank_count));
  if (has_root(shape.collective)) {
    shape.root = pick(rng, shape.rank_count);
  }
  shape.period = 1 + pick(rng, limits.most_steps);
  shape.fold_order = rng.below(2) == 0 ? FoldOrder::kOwnFirst : FoldOrder::kByRank;
  for (int32_t rank = 0; rank < shape.rank_count; ++rank) {
    shape.participants.push_back(rank);
  }
  for (std::size_t left = shape.participants.size(); left > 1; --left) {
    std::swap(shape.participants[left - 1], shape.participants[rng.below(left)]);
  }
  const int32_t steps = 1 + pick(rng, limits.most_steps);
  std::vector<Move> moves;
  for (int32_t count = 1 + pick(rng, limits.most_moves); count > 0; --count) {
    Move move;
    move.first_chunk = pick(rng, shape.chunk_count);
    move.chunk_count = 1 + pick(rng, std::min(3, shape.chunk_count - move.first_chunk));
    move.source = pick(rng, shape.rank_count);
    move.target = (move.source + 1 + pick(rng, shape.rank_count - 1)) % shape.rank_count;
    move.op = rng.below(3) == 0 ? kCopy : kReduce;
    move.step = pick(rng, steps);
    if (std::all_of(moves.begin(), moves.end(),
                    [&move](const Move& other) { return compatible(move, other); })) {
      moves.push_back(move);
    }
  }
  return make_schedule(shape, moves);
}

inline constexpr std::array kMutations = {"drop",    "duplicate", "retarget",
                                          "reorder", "flip op",   "change step"};

// Applies the mutation to a transfer of the schedule, which has some and no routes. A duplicate
// gets a step of its own, so that it is not refused by form at once.
inline void mutate(Schedule& schedule, std::size_t mutation, Rng& rng) {
  std::vector<Transfer>& transfers = schedule.transfers;
  const std::size_t index = rng.below(transfers.size());
  const int32_t rank_count = schedule.rank_count();
  const auto other_rank = [&](NodeId taken) {
    NodeId node = taken;
    while (node == taken) {
      node = schedule.participants[at(pick(rng, rank_count))];
    }
    return node;
  };
  Transfer& transfer = transfers[index];
  switch (mutation) {
    case 0:
      transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(index));
      break;
    case 1: {
      Transfer copy = transfer;
      copy.step = pick(rng, schedule.step_count());
      transfers.push_back(copy);
      break;
    }
    case 2:
      if (rng.below(2) == 0) {
        transfer.target = other_rank(transfer.source);
      } else {
        transfer.source = other_rank(transfer.target);
      }
      break;
    case 3:
      std::swap(transfer.step, transfers[rng.below(transfers.size())].step);
      break;
    case 4:
      transfer.op = transfer.op == kCopy ? kReduce : kCopy;
      break;
    default:
      transfer.step = pick(rng, schedule.step_count());
      break;
  }
  sort_transfers(schedule);
}

}  // namespace pleach::support
