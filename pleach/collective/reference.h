// Reference: inputs whose results are exact, and the serial results to compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/collective/schedule.h"

namespace pleach {

struct ReferenceRequest {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 1;
  Rank root = {0};
  ElementType type = ElementType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // the type has it
  int64_t count = 0;             // whole buffer [elements]; all_to_all: a multiple of rank_count
  uint64_t seed = 1;
};

ReferenceRequest reference_request(const Schedule& schedule, ElementType type, ReduceOp op,
                                   int64_t count, uint64_t seed);

// Fills the rank's input (its size as Placement says): integers up to 8, for products mostly ±1 and
// some powers of two, so that results of every floating type are exact in any order. On many ranks
// the integers are smaller, and some ranks give 0, or ±1: the sum of all magnitudes stays within
// the 2^11 (float16), 2^8 (bfloat16) or 2^24 that the type counts to, and no product leaves its
// exponents. Values repeat with a prime period of elements.
void fill_input(const ReferenceRequest& request, Rank rank, std::span<std::byte> input);

// Fills an output with a pattern that no result has (but of 8-bit types some may); what must stay
// untouched is checked by it.
void fill_output(std::span<std::byte> output);

// Elements of the rank's output (its size as Placement says) that differ from the serial result,
// if only in one bit: what is exact has no tolerance. (An average is rounded once, when it
// divides.) An output that the collective does not touch (reduce and gather away from the root)
// must still hold what fill_output wrote, or with `in_place` the input, a shard at its place.
//   cost  O(rank_count · min(count, 65,521) + count)
int64_t count_wrong(const ReferenceRequest& request, Rank rank, std::span<const std::byte> output,
                    bool in_place = false);

}  // namespace pleach
