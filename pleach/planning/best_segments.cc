#include "pleach/planning/best_segments.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pleach/collective/placement.h"

namespace pleach {
namespace {

// Of all that the job sends.
Result<int64_t> largest_message_bytes(const Job& job) {
  PLEACH_ASSIGN(placement, Placement::create(*job.schedule, job.size_bytes));
  int64_t largest_bytes = 0;
  for (const Transfer& transfer : job.schedule->transfers) {
    int64_t bytes = 0;
    for (int32_t index = 0; index < transfer.chunk_count; ++index) {
      bytes += placement.length(transfer.first_chunk + index);
    }
    largest_bytes = std::max(largest_bytes, bytes);
  }
  return largest_bytes;
}

}  // namespace

Result<int32_t> most_segments(std::span<const Job> jobs, const SegmentSearch& search) {
  int64_t largest_bytes = 0;
  for (const Job& job : jobs) {
    PLEACH_ASSIGN(bytes, largest_message_bytes(job));
    largest_bytes = std::max(largest_bytes, bytes);
  }
  int32_t most = 1;
  while (most < kMostSegmentsTried && 2 * most <= largest_bytes / search.least_bytes) {
    most *= 2;
  }
  return most;
}

Result<BestSegments> find_best_segments(const Topology& topology, std::span<const Job> jobs,
                                        const SegmentSearch& search) {
  constexpr int32_t kMostWorse = 2;
  SimulationOptions options = search.simulation;
  options.segment_count = 1;
  PLEACH_ASSIGN(first, simulate(search.model, topology, jobs, options));
  PLEACH_ASSIGN(most, most_segments(jobs, search));
  int64_t transfer_count = 0;
  for (const Job& job : jobs) {
    transfer_count += job.schedule->transfer_count();
  }
  int64_t least_ps = first.finish_ps;
  const auto is_good = [&](int64_t time_ps) {
    return static_cast<double>(time_ps) <= search.as_good * static_cast<double>(least_ps);
  };
  std::vector<BestSegments> good;  // when they were tried
  good.push_back({1, std::move(first)});
  int64_t budget = kAutoSegmentLimit;
  int32_t worse_in_a_row = 0;
  while (options.segment_count < most && worse_in_a_row < kMostWorse) {
    options.segment_count *= 2;
    budget -= transfer_count * options.segment_count;
    if (budget < 0) {
      break;
    }
    PLEACH_ASSIGN(other, simulate(search.model, topology, jobs, options));
    const bool is_faster = other.finish_ps < least_ps;
    least_ps = std::min(least_ps, other.finish_ps);
    if (is_faster || (search.as_good > 1 && is_good(other.finish_ps))) {
      good.push_back({options.segment_count, std::move(other)});
      worse_in_a_row = 0;
    } else {
      ++worse_in_a_row;
    }
  }
  const auto taken = std::find_if(good.rbegin(), good.rend(), [&](const BestSegments& one) {
    return is_good(one.simulation.finish_ps);
  });
  return std::move(*taken);
}

}  // namespace pleach
