// Streaming: folds and copies whose results are written past the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pleach/runtime/kernels.h"

namespace pleach {

// Results of so many bytes together outgrow their share of the last cache: to write them there
// first costs a read of each line, and drives out what is read next. Smaller ones are found there
// by whoever reads them, and written faster.
int64_t least_streamed();
// So much and more is streamed where those who read it next share no cache with this rank.
inline constexpr int64_t kLeastStreamedToPeers = 2048;

// As reduce(), with the same bits. Of types and ops that are rarely large it is reduce(), also
// where `out` is an operand, whose lines have been read anyway.
void stream_reduce(Reduction reduction, std::byte* out, const std::byte* a,
                   std::span<const std::byte* const> others, int64_t count);

// The ranges do not overlap.
void stream_copy(std::byte* out, const std::byte* in, int64_t bytes);
// The same, of what peers are to read: past the caches where they are far and it is not small.
void copy_to_peers(std::byte* out, std::span<const std::byte> in, bool are_far);

}  // namespace pleach
