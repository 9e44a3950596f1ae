// TraceStreams: every worker's streams of computation, loads and stores, each of which runs its
// ready nodes one at a time, in the trace's order.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "pleach/base/rng.h"
#include "pleach/training/trace_index.h"

namespace pleach {

// A node that a stream starts. One of a family (TraceNode) ends when the caller says so: release().
struct StreamRun {
  WorkerNode node;
  int64_t duration_ps = 0;
  bool has_family = false;
  bool computes = false;
  int64_t waited_ps = 0;  // the stream stood still before
};

// Not thread safe.
class TraceStreams {
 public:
  //   index   outlives it
  //   jitter  computation takes 1 + jitter·x times as long (IterationOptions), drawn from `seed`
  TraceStreams(const TraceIndex& index, double jitter, uint64_t seed);

  // A node of computation, a load or a store may run.
  void ready(WorkerNode node) {
    workers_[at(node.worker)].ready[stream_of(index_.node(node).kind)].push(node.node);
    touched_.push_back(node.worker);
  }
  // What starts now. To be called when all is ready that follows from the instant's events, so that
  // the order of equal events does not count. Valid until the next call.
  std::span<const StreamRun> start(int64_t now_ps) {
    return touched_.empty() ? std::span<const StreamRun>() : start_touched(now_ps);
  }
  // A node of a family has ended.
  void release(WorkerNode node) {
    workers_[at(node.worker)].busy[stream_of(index_.node(node).kind)] = false;
    touched_.push_back(node.worker);
  }
  // When the next node ends; INT64_MAX: none runs whose end is known.
  int64_t next_ps() const { return ends_.empty() ? INT64_MAX : ends_.top().time_ps; }
  // What ends now, by worker and node. Valid until the next call.
  std::span<const WorkerNode> finish(int64_t now_ps) {
    return next_ps() == now_ps ? finish_due(now_ps) : std::span<const WorkerNode>();
  }

 private:
  static constexpr std::size_t kStreams = 3;  // computation, load, store
  template <typename T>
  using MinQueue = std::priority_queue<T, std::vector<T>, std::greater<>>;

  struct Worker {
    std::array<MinQueue<int32_t>, kStreams> ready;
    std::array<bool, kStreams> busy = {};
    int64_t idle_from_ps = 0;  // computation, since
  };
  struct End {
    int64_t time_ps = 0;
    WorkerNode node;
    auto operator<=>(const End&) const = default;
  };
  static std::size_t stream_of(TraceNodeKind kind) {
    return kind == TraceNodeKind::kCompute ? 0 : kind == TraceNodeKind::kLoad ? 1 : 2;
  }
  std::span<const StreamRun> start_touched(int64_t now_ps);
  std::span<const WorkerNode> finish_due(int64_t now_ps);
  int64_t duration_ps(WorkerNode one);

  const TraceIndex& index_;
  const double jitter_;
  Rng rng_;
  std::vector<Worker> workers_;
  std::vector<int32_t> touched_;  // workers whose streams may start something
  MinQueue<End> ends_;
  std::vector<StreamRun> runs_;       // what start has returned
  std::vector<WorkerNode> finished_;  // what finish has
};

}  // namespace pleach
