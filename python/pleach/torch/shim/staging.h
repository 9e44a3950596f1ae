// Tensors of a device on their way through the host's memory. They are copied out chunk by chunk,
// on a stream of its own that waits for the one that writes them; each chunk is a collective, and
// is copied back on another stream while the next ones travel. No thread of the caller waits for
// any of it: PyTorch's interface for all devices is used, so that nothing here is CUDA's.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <limits>
#include <memory>

#include "lane.h"
#include "request.h"

namespace pleach_torch {

class Work;

// Of a chunk's whole; several are in host memory at a time.
constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int64_t kMostChunks = 4;
// Of messages: no order among them is known that a bound could keep without holding up one that
// another rank waits for.
constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

// When the results will have been written, on the stream that writes them.
struct Arrival {
  Arrival(c10::Stream back) : stream(back), written(back.device_type()) { written.record(back); }
  c10::Stream stream;
  c10::Event written;
};

// Takes note of what the caller's stream has been given so far, in the caller's thread.
//   request      not placed; of tensors on one device that has streams
//   chunk_bytes  of a chunk's whole, about; the same on all ranks
//   throws       NotImplementedError: the stream is being captured
std::shared_ptr<Job> stage(const c10::intrusive_ptr<Work>& work,
                           const std::shared_ptr<Request>& request, int64_t chunk_bytes,
                           std::chrono::milliseconds patience);

}  // namespace pleach_torch
