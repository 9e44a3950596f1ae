// RunBuffers: a run's buffers, checked, as a program wants them.
#pragma once

#include <cstddef>

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

}  // namespace pleach
