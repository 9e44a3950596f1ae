// IterationRecorder: what the iteration simulator reports of a run.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pleach/policy/steady_state.h"
#include "pleach/policy/wire.h"
#include "pleach/training/simulator.h"
#include "pleach/training/trace_index.h"
#include "pleach/workload/trace.h"

namespace pleach {

class IterationRecorder {
 public:
  IterationRecorder(const Trace& trace, bool keep_spans);

  // Computation of the worker stood still until now, when one of its nodes let it go on; −1: none
  // did. Until the end of its last iteration, if that falls into it, it was what ended that.
  void waited(int32_t worker, int32_t woken_by, int64_t wait_ps, int64_t now_ps);
  // The worker's iteration has ended with a node.
  void worker_finished(int32_t worker, int32_t node, int64_t now_ps) {
    last_[at(worker)].node = node;
    last_[at(worker)].end_ps = now_ps;
  }
  // When what a receive waits for started.
  void message_arrived(WorkerNode receive, int64_t sent_ps) { sent_ps_[receive] = sent_ps; }
  void node_started(int32_t worker, int32_t node, int64_t now_ps, int64_t duration_ps);
  void node_finished(int32_t worker, int32_t node, int64_t now_ps);
  void collective_started(int32_t group, const HostedCollective& what, int64_t now_ps);
  // Worker 0 has finished an iteration.
  void iteration_finished(int64_t now_ps, bool settled);

  bool steady() const { return steady_.found(); }
  int32_t iterations() const { return steady_.iterations(); }
  // After iterations() ≥ 1.
  //   logs  of each gradient group: PolicyHost::log
  TrainingRun collect(std::span<const std::span<const HostedCollective>> logs) const;

 private:
  struct Last {
    int32_t node = -1;  // with which the last iteration ended, and when
    int64_t end_ps = 0;
    int64_t input_from_ps = 0;  // of the last load of samples
    int64_t input_until_ps = 0;
  };
  bool is_input(int32_t worker, int32_t node) const;
  void add_wait(WorkerNode woken_by, int64_t from_ps, int64_t until_ps);

  const Trace& trace_;
  bool keep_spans_;
  SteadyState steady_;
  std::vector<Last> last_;                         // by worker
  std::map<WorkerNode, int64_t> sent_ps_;          // by receive, of the last message
  std::vector<WorkerTimes> sums_;                  // by worker, of everything so far
  std::vector<std::vector<WorkerTimes>> history_;  // sums_ at the end of each iteration
  std::vector<std::vector<int64_t>> begin_ps_;     // by worker, node: of those under way
  struct Spans {
    std::vector<IterationSpan> current;  // since worker 0's iteration began
    std::vector<IterationSpan> last;
    std::vector<IterationSpan> reported;  // of the iteration before
  } spans_;
  int64_t event_count_ = 0;
};

}  // namespace pleach
