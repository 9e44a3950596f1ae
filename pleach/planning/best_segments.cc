#include "pleach/planning/best_segments.h"

#include <algorithm>

namespace pleach {

Result<BestSegments> find_best_segments(std::string_view model, const Topology& topology,
                                        std::span<const Job> jobs, SimulationOptions options) {
  constexpr int32_t kMostTried = 64;
  constexpr int32_t kMostWorse = 2;
  int64_t transfer_count = 0, largest_bytes = 0;
  for (const Job& job : jobs) {
    transfer_count += job.schedule->transfer_count();
    largest_bytes = std::max(largest_bytes, job.size_bytes);
  }
  options.segment_count = 1;
  PLEACH_ASSIGN(first, simulate(model, topology, jobs, options));
  BestSegments best{1, std::move(first)};
  int64_t budget = kAutoSegmentLimit;
  int32_t worse_in_a_row = 0;
  while (options.segment_count < kMostTried && worse_in_a_row < kMostWorse) {
    options.segment_count *= 2;
    budget -= transfer_count * options.segment_count;
    if (budget < 0 || options.segment_count > largest_bytes) {
      break;
    }
    PLEACH_ASSIGN(other, simulate(model, topology, jobs, options));
    if (other.finish_ps < best.simulation.finish_ps) {
      best = {options.segment_count, std::move(other)};
      worse_in_a_row = 0;
    } else {
      ++worse_in_a_row;
    }
  }
  return best;
}

}  // namespace pleach
