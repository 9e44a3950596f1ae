// TraceProgress: how far every worker has come in its iteration of a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/training/trace_index.h"

namespace pleach {

// Of a node that has finished the rest follows: finish() takes note of it, take_finished() hands it
// out, and complete() says what may run now. Not thread safe.
class TraceProgress {
 public:
  // `index` outlives it. All workers are about to begin.
  explicit TraceProgress(const TraceIndex& index);

  // The workers that are about to begin an iteration, once each.
  std::vector<int32_t> take_beginning();
  bool has_beginning() const { return !beginning_.empty(); }
  // The worker's iteration begins: its nodes that wait for nothing. Valid until the next call of
  // this or of complete().
  std::span<const int32_t> begin(int32_t worker);

  void finish(WorkerNode node) { finished_.push_back(node); }
  // One that has finished and was not taken; nothing: there is none.
  std::optional<WorkerNode> take_finished() {
    if (finished_.empty()) {
      return std::nullopt;
    }
    const WorkerNode last = finished_.back();
    finished_.pop_back();
    return last;
  }
  struct Completion {
    std::span<const int32_t> ready;  // the worker's nodes that waited for this one last
    bool ends_worker = false;        // it was the last of the worker's iteration
    bool ends_iteration = false;     // of the whole training: worker 0's, as it happens
  };
  // What follows from a node that has finished. Valid as that of begin(). A worker that has done
  // all of its nodes is about to begin again: at once, or, in a trace without gradients, where
  // nothing else keeps workers together, when all have.
  Completion complete(WorkerNode node);

  // Iterations that the worker has finished.
  int32_t iteration(int32_t worker) const { return workers_[at(worker)].iteration; }
  // The worker's node that a ready one waited for last; −1: it waited for none.
  int32_t woken_by(WorkerNode one) const { return workers_[at(one.worker)].woken_by[at(one.node)]; }

 private:
  struct Worker {
    std::vector<int32_t> missing;   // by node: dependencies not finished
    std::vector<int32_t> woken_by;  // by node
    int32_t left = 0;               // nodes not finished
    int32_t iteration = 0;
  };
  bool end_iteration(int32_t worker);

  const TraceIndex& index_;
  const bool starts_together_;
  std::vector<Worker> workers_;
  std::vector<WorkerNode> finished_;
  std::vector<int32_t> ready_;      // what the last call has returned
  std::vector<int32_t> beginning_;  // workers whose next iteration begins
  std::vector<int32_t> done_;       // workers that wait for the others before it does
};

}  // namespace pleach
