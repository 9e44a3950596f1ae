// RunBuffers: a run's buffers, checked, as a program wants them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pleach/base/result.h"
#include "pleach/runtime/communicator.h"

namespace pleach {

struct RunBuffers {
  bool in_place = false;
  const std::byte* input = nullptr;  // the base of Buffer::kInput
  std::byte* output = nullptr;       // the base of Buffer::kOutput: in place the whole buffer
};

// Errors: kInvalidArgument: a size that does not fit, a null or unaligned buffer, an overlap.
Result<RunBuffers> check_buffers(const Schedule& schedule, Rank rank, const RunRequest& request);

// What a rank holds of the reduced result once it has run; empty where it holds none.
struct ReducedPart {
  std::byte* begin = nullptr;
  int64_t count = 0;  // elements
};
ReducedPart reduced_part(const Schedule& schedule, Rank rank, const RunRequest& request,
                         const RunBuffers& buffers);

}  // namespace pleach
