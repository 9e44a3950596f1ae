// How a request is cut into chunks, each a collective of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "request.h"

namespace pleach_torch {

struct Interval {
  int64_t begin = 0;
  int64_t size = 0;
};

// One chunk: what it reads and writes of the request's tensors, in its own order, and its counts as
// the request has them. All of PyTorch's elements.
struct Cut {
  std::vector<Interval> from, to;
  int64_t count = 0;
  std::vector<int64_t> counts, receive_counts;
  int32_t piece_count = 0;
};

// Cuts at the same places on all ranks, as they ask for the same; at least one.
//   request  not scaled
//   most     elements of a chunk's whole, about; what only two ranks know the size of (an
//            all_to_all, a message) is not cut
std::vector<Cut> cut_request(const Request& request, int64_t most);

}  // namespace pleach_torch
