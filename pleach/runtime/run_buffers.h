// RunBuffers: a run's buffers, checked, as a program wants them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/placement.h"
#include "pleach/runtime/communicator.h"

namespace pleach {

struct RunBuffers {
  bool in_place = false;
  const std::byte* input = nullptr;  // the base of Buffer::kInput
  std::byte* output = nullptr;       // the base of Buffer::kOutput: in place the whole buffer
};

// What a rank's buffers must be.
struct BufferNeeds {
  int64_t element = 1;  // bytes, as all that follows
  int64_t input = 0;
  int64_t output = 0;
  int64_t shard_begin = 0;  // of the rank's shard in the whole; −1: it is in pieces there
};
BufferNeeds buffer_needs(const Schedule& schedule, const Placement& placement, Rank rank,
                         ElementType type);

// Errors: kInvalidArgument: a null or unaligned buffer, an overlap.
Result<RunBuffers> check_buffers(CollectiveKind collective, const BufferNeeds& needs,
                                 const RunRequest& request);

// Where what a rank holds of a reduced result lies [elements]: in the whole, and in the output of a
// run that is not in place. Empty where it holds none.
struct ReducedParts {
  std::vector<Interval> in_whole;
  std::vector<Interval> apart;
};
ReducedParts reduced_parts(const Schedule& schedule, const Placement& placement, Rank rank);

}  // namespace pleach
