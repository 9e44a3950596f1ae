// Padding: buffers of training are padded so that all chunks, and all their segments, are alike.
#pragma once

#include <cstdint>

#include "pleach/collective/schedule.h"

namespace pleach {

// Bytes of which a schedule's buffers are padded to a multiple: a few bytes more make no chunk
// longer than its neighbours, which would put transfers out of step. 1 where that would be over 64
// KiB.
int64_t padding_unit_bytes(const Schedule& schedule, int32_t segment_count);

// size_bytes ≥ 0, rounded up to a multiple of unit_bytes ≥ 1.
inline int64_t padded_bytes(int64_t size_bytes, int64_t unit_bytes) {
  return (size_bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

}  // namespace pleach
