#include "pleach/training/trace_streams.h"

#include <algorithm>
#include <cmath>

#include "pleach/base/index.h"
#include "pleach/base/units.h"

namespace pleach {

TraceStreams::TraceStreams(const TraceIndex& index, double jitter, uint64_t seed)
    : index_(index), jitter_(jitter), rng_(seed), workers_(index.trace().workers.size()) {}

std::span<const StreamRun> TraceStreams::start_touched(int64_t now_ps) {
  runs_.clear();
  for (const int32_t number : touched_) {
    Worker& worker = workers_[at(number)];
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      if (worker.busy[stream] || worker.ready[stream].empty()) {
        continue;
      }
      const WorkerNode node = {number, worker.ready[stream].top()};
      worker.ready[stream].pop();
      worker.busy[stream] = true;
      const bool computes = stream == 0;
      runs_.push_back({.node = node,
                       .duration_ps = duration_ps(node),
                       .has_family = index_.node(node).family >= 0,
                       .computes = computes,
                       .waited_ps = computes ? now_ps - worker.idle_from_ps : 0});
      if (!runs_.back().has_family) {
        ends_.push({now_ps + runs_.back().duration_ps, node});
      }
    }
  }
  touched_.clear();
  return runs_;
}

// A node's time, with its noise: the slowest of n ranks, whose exponential noises are independent.
int64_t TraceStreams::duration_ps(WorkerNode one) {
  const TraceNode& node = index_.node(one);
  if (jitter_ <= 0 || node.kind != TraceNodeKind::kCompute) {
    return node.duration_ps;
  }
  const auto ranks = static_cast<double>(index_.trace().workers[at(one.worker)].ranks.size());
  const double slowest = -std::log1p(-std::pow(rng_.unit(), 1 / ranks));
  const double noisy_ps = static_cast<double>(node.duration_ps) * (1 + jitter_ * slowest);
  return static_cast<int64_t>(std::min(noisy_ps, static_cast<double>(kLongestPs + 1)));
}

std::span<const WorkerNode> TraceStreams::finish_due(int64_t now_ps) {
  finished_.clear();
  while (next_ps() == now_ps) {
    const WorkerNode node = ends_.top().node;
    ends_.pop();
    Worker& worker = workers_[at(node.worker)];
    const std::size_t stream = stream_of(index_.node(node).kind);
    worker.busy[stream] = false;
    if (stream == 0) {
      worker.idle_from_ps = now_ps;
    }
    touched_.push_back(node.worker);
    finished_.push_back(node);
  }
  return finished_;
}

}  // namespace pleach
