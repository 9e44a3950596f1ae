// TraceCollectives: the collectives of a trace, and loads and stores by I/O nodes, each of which
// waits for all of its workers.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "pleach/training/trace_index.h"
#include "pleach/training/trace_stop.h"

namespace pleach {

// Those of one channel run one after another, in the order in which its workers come to them. Not
// thread safe.
class TraceCollectives {
 public:
  explicit TraceCollectives(const TraceIndex& index);  // outlives it

  // A worker has come to its node, a collective.
  void come(WorkerNode node);
  // Whether any may start.
  bool has_next() const { return !touched_.empty(); }
  // The channels whose next collective starts now, ascending: all of its workers have come to it,
  // and the one before is over.
  std::vector<int32_t> start();
  // The nodes that run on a channel, one of each of its workers, in their order.
  std::span<const WorkerNode> running(int32_t channel) const {
    return channels_[at(channel)].running;
  }
  // They end.
  std::vector<WorkerNode> finish(int32_t channel);
  // Those that a worker has come to and another one has not, each for the first such one.
  std::vector<TraceWait> waits() const;

 private:
  struct Channel {
    std::vector<std::deque<int32_t>> issued;  // nodes, by position in the channel's workers
    std::vector<WorkerNode> running;
  };

  const TraceIndex& index_;
  std::vector<Channel> channels_;
  std::vector<int32_t> touched_;  // channels that may start something
};

}  // namespace pleach
