#include "pleach/network/job_checks.h"

#include <fmt/format.h>

#include <algorithm>

namespace pleach {
namespace {

constexpr int64_t kMostWireBytes = int64_t{1} << 56;  // of all ranks: totals over links fit int64

}  // namespace

Error takes_too_long() {
  return invalid(fmt::format(
      "the simulation passes {} of simulated time; is a bandwidth, a latency or the size "
      "mistyped?",
      kLongestText));
}

Status check_jobs(const Topology& topology, std::span<const Job> jobs,
                  const SimulationOptions& options) {
  if (options.segment_count < 1 || options.segment_count > kMostSegments) {
    return invalid(
        fmt::format("segments {}: must be 1 to {}", options.segment_count, kMostSegments));
  }
  if (options.landing_places < 0 || options.reduce_bandwidth_bytes_per_s < 0) {
    return invalid("landing places and reduce bandwidth must not be negative");
  }
  for (const Job& job : jobs) {
    if (job.size_bytes < 0 || job.start_ps < 0) {
      return invalid(fmt::format("job of {} bytes at {} ps: must not be negative", job.size_bytes,
                                 job.start_ps));
    }
    const int64_t most_bytes = kMostWireBytes / std::max<int64_t>(1, job.schedule->rank_count());
    if (job.size_bytes > most_bytes || job.start_ps > kLongestPs) {
      return invalid(fmt::format("job of {} bytes at {} ps on {} ranks: at most {} bytes within {}",
                                 job.size_bytes, job.start_ps, job.schedule->rank_count(),
                                 most_bytes, kLongestText));
    }
    for (const NodeId node : job.schedule->participants) {
      if (node.value < 0 || node.index() >= topology.nodes().size()) {
        return invalid(fmt::format("participant {} is no node of {}", node.value, topology.name()));
      }
    }
  }
  return ok();
}

Result<std::optional<Schedule>> with_routes(const Topology& topology, const Schedule& schedule) {
  const bool complete =
      std::none_of(schedule.transfers.begin(), schedule.transfers.end(),
                   [](const Transfer& transfer) { return transfer.route == kNoRoute; });
  if (complete) {
    return std::optional<Schedule>();
  }
  Schedule routed = schedule;
  PLEACH_TRY(fill_routes(routed, topology));
  return std::optional(std::move(routed));
}

}  // namespace pleach
