// MessageWays: how the messages of some jobs go: through which routers, into which interface.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/flit_options.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Of a rank's interfaces those that receive take turns in every step, by first chunk; what is
// reduced the other way round, as a reduce_scatter is an all_gather backwards. Published interfaces
// take turns by published_turns(). Where each sends over a link of its own, what comes over a
// rank's i-th link into it goes to the i-th.
class MessageWays {
 public:
  // Jobs have no symmetry, and no streams through switches.
  // Errors: kInfeasible: VCs do not suffice for all routes together; kInvalidArgument: a message of
  // 2^31 flits or more, or more than 2^44 flits times hops.
  static Result<MessageWays> create(const Topology& topology, const TopologyFabric& fabric,
                                    const FlitOptions& options, std::span<const LoweredJob> jobs);

  int32_t vc_classes() const { return vc_classes_; }
  // Of all packets [flits].
  int64_t shortest_packet() const { return shortest_packet_; }
  // hops_of() a stream's messages. Lives as long as this.
  std::span<const uint16_t> hops(int32_t job, int32_t stream) const {
    const std::size_t way = at(ways_[at(job)][at(stream)]);
    return std::span(hops_).subspan(first_[way], first_[way + 1] - first_[way]);
  }
  // An interface takes the stream with the smallest of those that it may send in a step.
  int32_t turn(int32_t job, int32_t stream) const {
    return turns_.empty() ? stream : turns_[at(job)][at(stream)];
  }

 private:
  Status measure(const FlitOptions& options, std::span<const LoweredJob> jobs);

  int32_t vc_classes_ = 1;
  int64_t shortest_packet_ = INT64_MAX;
  std::vector<std::vector<int32_t>> ways_;   // by job and stream
  std::vector<std::vector<int32_t>> turns_;  // likewise, published; empty: as streams are numbered
  std::vector<std::size_t> first_;           // by way, and one more: of its hops
  std::vector<uint16_t> hops_;
};

}  // namespace pleach
