#include "pleach/training/trace_progress.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

bool has_gradients(const Trace& trace) {
  return std::ranges::any_of(trace.workers, [](const WorkerTrace& worker) {
    return std::ranges::any_of(
        worker.nodes, [](const TraceNode& node) { return node.kind == TraceNodeKind::kGradient; });
  });
}

}  // namespace

TraceProgress::TraceProgress(const TraceIndex& index)
    : index_(index),
      starts_together_(!has_gradients(index.trace())),
      workers_(index.trace().workers.size()),
      beginning_(workers_.size()) {
  std::iota(beginning_.begin(), beginning_.end(), 0);
}

std::vector<int32_t> TraceProgress::take_beginning() {
  return std::exchange(beginning_, {});
}

std::span<const int32_t> TraceProgress::begin(int32_t worker) {
  Worker& one = workers_[at(worker)];
  one.left = count_of(index_.trace().workers[at(worker)].nodes);
  one.missing.resize(at(one.left));
  one.woken_by.assign(at(one.left), -1);
  ready_.clear();
  for (int32_t node = 0; node < one.left; ++node) {
    one.missing[at(node)] = count_of(index_.dependencies({worker, node}));
    if (one.missing[at(node)] == 0) {
      ready_.push_back(node);
    }
  }
  return ready_;
}

TraceProgress::Completion TraceProgress::complete(WorkerNode node) {
  Worker& worker = workers_[at(node.worker)];
  ready_.clear();
  for (const int32_t next : index_.successors(node)) {
    if (--worker.missing[at(next)] == 0) {
      worker.woken_by[at(next)] = node.node;
      ready_.push_back(next);
    }
  }
  const bool ends_worker = --worker.left == 0;
  const bool ends_iteration = ends_worker && end_iteration(node.worker);
  return {.ready = ready_, .ends_worker = ends_worker, .ends_iteration = ends_iteration};
}

bool TraceProgress::end_iteration(int32_t worker) {
  ++workers_[at(worker)].iteration;
  done_.push_back(worker);
  if (starts_together_ && done_.size() < workers_.size()) {
    return false;
  }
  beginning_.insert(beginning_.end(), done_.begin(), done_.end());
  done_.clear();
  return worker == 0 || starts_together_;
}

}  // namespace pleach
