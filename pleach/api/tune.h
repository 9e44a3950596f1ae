// Tune: the book of what is the fastest on these ranks, measured by running all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/planning/book.h"
#include "pleach/runtime/endpoint.h"

namespace pleach {

// Of ways by the time that each took: which are worth another round, and which is the fastest by
// the median of its times; the first on a tie. At least one, with at least one time.
std::vector<std::size_t> worth_another_round(std::span<const double> times_s);
std::size_t fastest(std::span<const std::vector<double>> times_s);

struct TuneOptions {
  std::vector<int64_t> sizes_bytes;  // whole buffers: ascending, > 0
  int32_t rounds = 5;                // of which the median counts, ≥ 1
  // Told on rank 0 what is measured next.
  std::function<void(const std::string& what)> progress = {};
};

// Collective: all ranks run what `auto` takes one of, for every collective (with root 0) and size,
// in one segment and, where messages are large, in four; float32, sum, ordinary buffers apart, one
// element at the least. Rounds are interleaved; what takes half as long again as the fastest in the
// first is not run again. A way that one size is beyond ends it.
//   returns  on rank 0 the book; elsewhere one that is of no use
//   errors   those of check_book_sizes(), endpoints and communicators
//   cost     two buffers of the largest size on each rank; a minute or two
Result<Book> tune_book(EndpointOptions endpoint, const TuneOptions& options);

}  // namespace pleach
