// RunBuffers: a run's buffers, checked, as a program wants them.
#pragma once

#include <cstddef>
#include <cstdint>

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
  int64_t shard_begin = 0;  // of the rank's shard in the whole
};
BufferNeeds buffer_needs(const Schedule& schedule, const Placement& placement, Rank rank,
                         ElementType type);

// Errors: kInvalidArgument: a null or unaligned buffer, an overlap.
Result<RunBuffers> check_buffers(CollectiveKind collective, const BufferNeeds& needs,
                                 const RunRequest& request);

// What a rank holds of the reduced result once it has run; empty where it holds none.
struct ReducedPart {
  std::byte* begin = nullptr;
  int64_t count = 0;  // elements
};
ReducedPart reduced_part(CollectiveKind collective, const BufferNeeds& needs,
                         const RunBuffers& buffers);

}  // namespace pleach
