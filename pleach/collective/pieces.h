// Pieces: collectives over several stretches of memory, as one run of a schedule.
//
// The whole of an all_gather, reduce_scatter, gather or scatter is k pieces, one behind the other;
// in each of them every rank has a part, and these lie one behind the other in the order of the
// ranks. A rank's shard is its parts of all pieces, one behind the other. Parts may be empty.
// One piece is what a schedule places by itself; k of them are k collectives in one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"

namespace pleach {

// Where a chunk lies [elements].
struct ChunkPlace {
  int64_t length = 0;
  int64_t whole_begin = 0;  // in the whole
  int64_t shard_begin = 0;  // in the shard of the rank that its part belongs to
};

// The same moves in the same order, on a grid none of whose chunks crosses the end of a piece. Its
// parts, which its chunks begin and end as ever, weigh alike; what they measure is in `places`.
// A transfer is several, each of whole chunks, in place of several segments of all of its chunks:
// so small pieces travel whole, many in one transfer.
struct PiecedSchedule {
  Schedule schedule;               // without symmetry
  std::vector<ChunkPlace> places;  // by chunk
  std::vector<int64_t> shards;     // by rank: elements of its shard
};

// Refines `schedule`, whose proof stands for the result's: it is one over chunks, whatever they
// measure, and chunks that every transfer treats alike fare alike.
//   schedule  well formed; a collective with shards
//   counts    of piece p on rank r at p·n + r [elements]
//   most      elements of a transfer, and of a chunk, ≥ 1
//   errors    kInvalidArgument: counts that are not some pieces of n, a negative one, a sum beyond
//             int64; so many pieces that the result would be over the limits of a schedule; those
//             of expand()
//   cost      O(chunks + pieces + moves of the result)
Result<PiecedSchedule> cut_into_pieces(const Schedule& schedule, std::span<const int64_t> counts,
                                       int64_t most);

}  // namespace pleach
