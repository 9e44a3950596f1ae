// IterationRecorder: what the iteration simulator reports of a run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/policy/steady_state.h"
#include "pleach/policy/wire.h"
#include "pleach/training/simulator.h"
#include "pleach/workload/trace.h"

namespace pleach {

class IterationRecorder {
 public:
  IterationRecorder(const Trace& trace, bool keep_spans);

  // Computation of the worker stood still until a node of this kind let it go on.
  void waited(int32_t worker, TraceNodeKind woken_by, int64_t wait_ps);
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
  const Trace& trace_;
  bool keep_spans_;
  SteadyState steady_;
  std::vector<WorkerTimes> sums_;                  // by worker, of everything so far
  std::vector<std::vector<WorkerTimes>> history_;  // sums_ at the end of each iteration
  std::vector<std::vector<int64_t>> begin_ps_;     // by worker, node: of those under way
  std::vector<IterationSpan> spans_;               // since worker 0's iteration began
  std::vector<IterationSpan> last_spans_;
  std::vector<IterationSpan> reported_spans_;  // of the iteration before
  int64_t event_count_ = 0;
};

}  // namespace pleach
