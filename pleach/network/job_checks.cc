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

Status check_options(const SimulationOptions& options) {
  if (options.segment_count < 1 || options.segment_count > kMostSegments) {
    return invalid(
        fmt::format("segments {}: must be 1 to {}", options.segment_count, kMostSegments));
  }
  if (options.landing_places < 0 || options.reduce_bandwidth_bytes_per_s < 0) {
    return invalid("landing places and reduce bandwidth must not be negative");
  }
  return ok();
}

Status check_job(const Topology& topology, const Job& job, int64_t now_ps) {
  const auto& [schedule, size_bytes, start_ps] = job;
  if (size_bytes < 0 || start_ps < 0) {
    return invalid(
        fmt::format("job of {} bytes at {} ps: must not be negative", size_bytes, start_ps));
  }
  const int64_t most_bytes = kMostWireBytes / std::max<int64_t>(1, schedule->rank_count());
  if (size_bytes > most_bytes || start_ps > kLongestPs) {
    return invalid(fmt::format("job of {} bytes at {} ps on {} ranks: at most {} bytes within {}",
                               size_bytes, start_ps, schedule->rank_count(), most_bytes,
                               kLongestText));
  }
  for (const NodeId node : schedule->participants) {
    if (node.value < 0 || node.index() >= topology.nodes().size()) {
      return invalid(fmt::format("participant {} is no node of {}", node.value, topology.name()));
    }
  }
  if (start_ps < now_ps) {
    return invalid(fmt::format("job at {} ps: the session is at {} ps already", start_ps, now_ps));
  }
  return ok();
}

}  // namespace pleach
