// TraceIndex: a trace turned around: who waits for a node, and which workers communicate together.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/workload/trace.h"

namespace pleach {

// The workers that share groups of a family, and those groups: they communicate as one.
struct TraceChannel {
  int32_t family = 0;
  std::vector<int32_t> groups;   // ascending
  std::vector<int32_t> workers;  // ascending
};

// A node of a worker.
struct WorkerNode {
  int32_t worker = 0;
  int32_t node = 0;
  auto operator<=>(const WorkerNode&) const = default;
};

class TraceIndex {
 public:
  explicit TraceIndex(const Trace& trace);  // outlives it

  const Trace& trace() const { return trace_; }
  const TraceNode& node(WorkerNode one) const {
    return trace_.workers[at(one.worker)].nodes[at(one.node)];
  }
  // What it waits for.
  std::span<const int32_t> dependencies(WorkerNode one) const {
    const WorkerTrace& worker = trace_.workers[at(one.worker)];
    const int32_t first = worker.first_dependency[at(one.node)];
    return std::span(worker.dependencies)
        .subspan(at(first), at(worker.first_dependency[at(one.node) + 1] - first));
  }
  // What waits for it.
  std::span<const int32_t> successors(WorkerNode one) const {
    const Waiters& waiters = waiters_[at(one.worker)];
    const int32_t first = waiters.first[at(one.node)];
    return std::span(waiters.nodes).subspan(at(first), at(waiters.first[at(one.node) + 1] - first));
  }
  const std::vector<TraceChannel>& channels() const { return channels_; }
  // The worker's channel in a family; −1: it is in no group of it.
  int32_t channel_of(int32_t worker, int32_t family) const {
    return channel_of_[at(family)][at(worker)];
  }
  // Position of the worker among its channel's workers.
  int32_t position_in(int32_t channel, int32_t worker) const;

 private:
  struct Waiters {
    std::vector<int32_t> first;
    std::vector<int32_t> nodes;
  };
  void find_channels(const Trace& trace, int32_t family, const std::vector<int32_t>& worker_of);

  const Trace& trace_;
  std::vector<Waiters> waiters_;  // by worker
  std::vector<TraceChannel> channels_;
  std::vector<std::vector<int32_t>> channel_of_;  // by family, worker
};

}  // namespace pleach
