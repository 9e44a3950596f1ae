#include "pleach/network/job_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/collective/placement.h"

namespace pleach {
namespace {

constexpr int64_t kMostBufferBytes = int64_t{1} << 56;  // of all ranks
constexpr int64_t kMostWireBytes = int64_t{1} << 60;  // of all links, with headers: sums fit int64

}  // namespace

Error takes_too_long() {
  return invalid(fmt::format(
      "the simulation passes {} of simulated time; is a bandwidth, a latency or the size "
      "mistyped?",
      kLongestText));
}

Status check_no_reconfiguration(const SimulationOptions& options, const std::string& model) {
  if (options.reconfiguration_ps > 0) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("reconfiguration of {} ps: switches change their configuration in no "
                             "time in the {} model; use flow",
                             options.reconfiguration_ps, model)};
  }
  return ok();
}

Status check_options(const SimulationOptions& options) {
  if (options.segment_count < 1 || options.segment_count > kMostSegments) {
    return invalid(
        fmt::format("segments {}: must be 1 to {}", options.segment_count, kMostSegments));
  }
  if (options.landing_places < 0 || options.reduce_bandwidth_bytes_per_s.value_or(0) < 0) {
    return invalid("landing places and reduce bandwidth must not be negative");
  }
  if (options.reconfiguration_ps < 0) {
    return invalid(
        fmt::format("reconfiguration of {} ps: must not be negative", options.reconfiguration_ps));
  }
  return ok();
}

Status check_job(const Topology& topology, const Job& job, int64_t now_ps) {
  const auto& [schedule, size_bytes, start_ps, traffic_class, label] = job;
  if (size_bytes < 0 || start_ps < 0) {
    return invalid(
        fmt::format("job of {} bytes at {} ps: must not be negative", size_bytes, start_ps));
  }
  const int64_t most_bytes = kMostBufferBytes / std::max<int64_t>(1, schedule->rank_count());
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
  if (traffic_class < 0 || traffic_class >= kTrafficClasses) {
    return invalid(
        fmt::format("job of class {}: classes are 0 to {}", traffic_class, kTrafficClasses - 1));
  }
  if (start_ps < now_ps) {
    return invalid(fmt::format("job at {} ps: the session is at {} ps already", start_ps, now_ps));
  }
  return ok();
}

Status check_wire_bytes(const Topology& topology, const Schedule& schedule, int64_t size_bytes,
                        const SimulationOptions& options) {
  PLEACH_ASSIGN(placement, Placement::create(schedule, size_bytes));
  const Framing& framing = topology.framing();
  const auto framed_bytes = [&](int64_t payload_bytes) {
    const auto payload = static_cast<double>(payload_bytes);
    const double full_packets = options.flow_control == FlowControl::kMessage
                                    ? 0
                                    : payload / static_cast<double>(framing.packet_bytes);
    return payload +
           (options.segment_count + full_packets) * static_cast<double>(framing.header_bytes);
  };
  const double translates = schedule.symmetry ? schedule.rank_count() : 1;
  // Were every transfer the whole buffer and every route all links.
  const double most = framed_bytes(placement.begin(schedule.chunks.count())) *
                      static_cast<double>(schedule.transfers.size()) *
                      static_cast<double>(topology.links().size()) * translates;
  if (most <= static_cast<double>(kMostWireBytes)) {
    return ok();
  }
  double sum = 0;
  for (const Transfer& transfer : schedule.transfers) {
    const int64_t payload = placement.begin(transfer.first_chunk + transfer.chunk_count) -
                            placement.begin(transfer.first_chunk);
    sum += framed_bytes(payload) * static_cast<double>(schedule.routes[transfer.route].size());
  }
  if (sum * translates > static_cast<double>(kMostWireBytes)) {
    return invalid(fmt::format(
        "job of {} bytes: the schedule and its headers put {:.3g} bytes on links, at most {:.3g}",
        size_bytes, sum * translates, static_cast<double>(kMostWireBytes)));
  }
  return ok();
}

}  // namespace pleach
