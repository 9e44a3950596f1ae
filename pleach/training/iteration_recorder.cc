#include "pleach/training/iteration_recorder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {
namespace {

WorkerTimes mean(const WorkerTimes& last, const WorkerTimes& first, int32_t count) {
  return {.compute_ps = (last.compute_ps - first.compute_ps) / count,
          .gradient_wait_ps = (last.gradient_wait_ps - first.gradient_wait_ps) / count,
          .collective_wait_ps = (last.collective_wait_ps - first.collective_wait_ps) / count,
          .receive_wait_ps = (last.receive_wait_ps - first.receive_wait_ps) / count,
          .load_wait_ps = (last.load_wait_ps - first.load_wait_ps) / count,
          .bubble_wait_ps = (last.bubble_wait_ps - first.bubble_wait_ps) / count,
          .input_wait_ps = (last.input_wait_ps - first.input_wait_ps) / count};
}

}  // namespace

IterationRecorder::IterationRecorder(const Trace& trace, bool keep_spans)
    : trace_(trace),
      keep_spans_(keep_spans),
      last_(trace.workers.size()),
      sums_(trace.workers.size()) {
  if (keep_spans) {
    for (const WorkerTrace& worker : trace.workers) {
      begin_ps_.emplace_back(worker.nodes.size(), -1);
    }
  }
}

void IterationRecorder::waited(int32_t worker, int32_t woken_by, int64_t wait_ps, int64_t now_ps) {
  const Last& last = last_[at(worker)];
  const int64_t until_ps = std::clamp(last.end_ps, now_ps - wait_ps, now_ps);
  add_wait({worker, last.node}, now_ps - wait_ps, until_ps);
  add_wait({worker, woken_by}, until_ps, now_ps);
}

void IterationRecorder::add_wait(WorkerNode woken_by, int64_t from_ps, int64_t until_ps) {
  WorkerTimes& times = sums_[at(woken_by.worker)];
  const int64_t wait_ps = until_ps - from_ps;
  if (woken_by.node < 0) {
    times.receive_wait_ps += wait_ps;
    times.bubble_wait_ps += wait_ps;
    return;
  }
  const TraceNode& node = trace_.workers[at(woken_by.worker)].nodes[at(woken_by.node)];
  switch (node.kind) {
    case TraceNodeKind::kForwardGate:
    case TraceNodeKind::kBackwardGate:
      times.gradient_wait_ps += wait_ps;
      return;
    case TraceNodeKind::kCollective:
      times.collective_wait_ps += wait_ps;
      return;
    case TraceNodeKind::kLoad:
    case TraceNodeKind::kStore: {
      const Last& last = last_[at(woken_by.worker)];  // what came behind samples waited for them
      times.load_wait_ps += wait_ps;
      times.input_wait_ps += std::max(int64_t{0}, std::min(until_ps, last.input_until_ps) -
                                                      std::max(from_ps, last.input_from_ps));
      return;
    }
    default:
      times.receive_wait_ps += wait_ps;
  }
  if (const auto sent = sent_ps_.find(woken_by); sent != sent_ps_.end()) {
    times.bubble_wait_ps += std::clamp(sent->second - from_ps, int64_t{0}, wait_ps);
  }
}

bool IterationRecorder::is_input(int32_t worker, int32_t node) const {
  const TraceNode& one = trace_.workers[at(worker)].nodes[at(node)];
  return one.kind == TraceNodeKind::kLoad && one.family >= 0 &&
         trace_.families[at(one.family)].role == FamilyRole::kInput;
}

void IterationRecorder::node_started(int32_t worker, int32_t node, int64_t now_ps,
                                     int64_t duration_ps) {
  ++event_count_;
  steady_.note(now_ps, int64_t{worker} << 32 | node);
  if (trace_.workers[at(worker)].nodes[at(node)].kind == TraceNodeKind::kCompute) {
    sums_[at(worker)].compute_ps += duration_ps;
  }
  if (is_input(worker, node)) {
    last_[at(worker)].input_from_ps = now_ps;
  }
  if (keep_spans_) {
    begin_ps_[at(worker)][at(node)] = now_ps;
  }
}

void IterationRecorder::node_finished(int32_t worker, int32_t node, int64_t now_ps) {
  if (is_input(worker, node)) {
    last_[at(worker)].input_until_ps = now_ps;
  }
  if (!keep_spans_ || begin_ps_[at(worker)][at(node)] < 0) {
    return;
  }
  spans_.current.push_back({.worker = worker,
                            .node = node,
                            .begin_ps = std::exchange(begin_ps_[at(worker)][at(node)], -1),
                            .end_ps = now_ps});
}

void IterationRecorder::collective_started(int32_t group, const HostedCollective& what,
                                           int64_t now_ps) {
  ++event_count_;
  steady_.note(now_ps, int64_t{-2} - group);
  steady_.note(now_ps, what.what.range.begin);
}

void IterationRecorder::iteration_finished(int64_t now_ps, bool settled) {
  steady_.end_iteration(now_ps, settled);
  history_.push_back(sums_);
  spans_.reported = std::exchange(spans_.last, std::exchange(spans_.current, {}));
}

TrainingRun IterationRecorder::collect(
    std::span<const std::span<const HostedCollective>> logs) const {
  TrainingRun run;
  const int32_t count = steady_.iterations();
  const int32_t span = steady_.mean_over();
  run.iteration_ps = steady_.iteration_ps();
  run.steady = steady_.found();
  run.iterations = count;
  run.period = steady_.period();
  // What an iteration starts last ends in the next one.
  const int32_t reported = std::max(0, count - 2);
  run.last_start_ps = reported > 0 ? steady_.end_ps(reported - 1) : 0;
  double squares = 0;
  for (int32_t i = count - span; i < count; ++i) {
    const int64_t from_ps = i > 0 ? steady_.end_ps(i - 1) : 0;
    const auto off = static_cast<double>(steady_.end_ps(i) - from_ps - run.iteration_ps);
    squares += off * off;
  }
  run.deviation_ps = steady_.found() ? 0 : static_cast<int64_t>(std::sqrt(squares / span));
  const std::vector<WorkerTimes> none(sums_.size());
  const auto& first = count > span ? history_[at(count - 1 - span)] : none;
  for (std::size_t worker = 0; worker < sums_.size(); ++worker) {
    run.workers.push_back(mean(history_.back()[worker], first[worker], span));
  }
  const int64_t end_ps = steady_.end_ps(reported);
  for (const std::span<const HostedCollective> log : logs) {
    std::ranges::copy_if(
        log, std::back_inserter(run.logs.emplace_back()), [&](const HostedCollective& one) {
          const bool is_on_wire = one.finished_ps < 0;
          return one.started_ps >= run.last_start_ps && one.started_ps < end_ps && !is_on_wire;
        });
  }
  run.spans = count > 1 ? spans_.reported : spans_.last;
  run.event_count = event_count_;
  return run;
}

}  // namespace pleach
