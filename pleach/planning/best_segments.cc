#include "pleach/planning/best_segments.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "pleach/base/interruption.h"
#include "pleach/collective/placement.h"

namespace pleach {
namespace {

// Of all that the job sends.
Result<int64_t> largest_message_bytes(const Job& job) {
  PLEACH_ASSIGN(placement, Placement::create(*job.schedule, job.size_bytes));
  int64_t largest_bytes = 0;
  for (const Transfer& transfer : job.schedule->transfers) {
    check_interruption();
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

Result<int32_t> find_best_segments(std::span<const Job> jobs, const SegmentSearch& search,
                                   const TimeSegments& time_ps) {
  constexpr int32_t kMostWorse = 2;
  PLEACH_ASSIGN(least_ps, time_ps(1));
  PLEACH_ASSIGN(most, most_segments(jobs, search));
  int64_t transfer_count = 0;
  for (const Job& job : jobs) {
    transfer_count += job.schedule->transfer_count();
  }
  const auto is_good = [&](int64_t one_ps) {
    return static_cast<double>(one_ps) <= search.as_good * static_cast<double>(least_ps);
  };
  std::vector<std::pair<int32_t, int64_t>> good = {{1, least_ps}};  // when they were tried
  int64_t budget = kAutoSegmentLimit;
  int32_t worse_in_a_row = 0;
  for (int32_t count = 2; count <= most && worse_in_a_row < kMostWorse; count *= 2) {
    budget -= transfer_count * count;
    if (budget < 0) {
      break;
    }
    PLEACH_ASSIGN(other_ps, time_ps(count));
    const bool is_faster = other_ps < least_ps;
    least_ps = std::min(least_ps, other_ps);
    if (is_faster || (search.as_good > 1 && is_good(other_ps))) {
      good.emplace_back(count, other_ps);
      worse_in_a_row = 0;
    } else {
      ++worse_in_a_row;
    }
  }
  return std::find_if(good.rbegin(), good.rend(),
                      [&](const auto& one) { return is_good(one.second); })
      ->first;
}

Result<BestSegments> find_best_segments(const Topology& topology, std::span<const Job> jobs,
                                        const SegmentSearch& search) {
  std::map<int32_t, Simulation> simulations;
  const auto time_ps = [&](int32_t count) -> Result<int64_t> {
    SimulationOptions options = search.simulation;
    options.segment_count = count;
    PLEACH_ASSIGN(simulation, simulate(search.model, topology, jobs, options));
    return simulations.emplace(count, std::move(simulation)).first->second.finish_ps;
  };
  PLEACH_ASSIGN(count, find_best_segments(jobs, search, time_ps));
  return BestSegments{count, std::move(simulations.at(count))};
}

}  // namespace pleach
