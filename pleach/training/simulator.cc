#include "pleach/training/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/training/iteration_recorder.h"
#include "pleach/training/trace_collectives.h"
#include "pleach/training/trace_gradients.h"
#include "pleach/training/trace_index.h"
#include "pleach/training/trace_messages.h"
#include "pleach/training/trace_progress.h"
#include "pleach/training/trace_streams.h"

namespace pleach {
namespace {

// What an operation on the network completes: what runs on a channel of the trace's collectives, a
// collective of gradients, or a send.
struct ChannelRun {
  int32_t channel = 0;
};
struct Sent {
  WorkerNode node;
  int32_t iteration = 0;  // of its worker
  int64_t sent_ps = 0;
};
using Operation = std::variant<ChannelRun, GradientCollective, Sent>;

// The network, and what its operations are.
class Carrier {
 public:
  Carrier(TraceNetwork& network, const Trace& trace, const TrafficClasses& classes)
      : network_(network), trace_(trace), classes_(classes) {}

  template <typename What>  // a GroupCollective or a WorkerSend
  Status start(What what, const Operation& completes, int64_t now_ps) {
    what.traffic_class = class_of(what);
    PLEACH_ASSIGN(number, network_.start(what, now_ps));
    operations_.resize(at(number) + 1);
    operations_[at(number)] = completes;
    return ok();
  }
  // As those of TraceNetwork.
  std::optional<int64_t> next_ps() const { return network_.next_ps(); }
  Result<std::vector<TraceNetwork::Finish>> advance(int64_t until_ps) {
    return network_.advance(until_ps);
  }
  const Operation& operation(const TraceNetwork::Finish& one) const {
    return operations_[at(one.operation)];
  }

 private:
  int32_t class_of(const GroupCollective& what) const {
    return classes_.of(trace_.families[at(what.family)]);
  }
  int32_t class_of(const WorkerSend& /*what*/) const { return classes_.of_messages(); }

  TraceNetwork& network_;
  const Trace& trace_;
  const TrafficClasses& classes_;
  std::vector<Operation> operations_;  // by number
};

// Brings the parts of a training together, instant by instant.
class Simulator {
 public:
  Simulator(const Trace& trace, std::span<Policy* const> policies, TraceNetwork& network,
            const IterationOptions& options)
      : options_(options),
        index_(trace),
        recorder_(trace, options.keep_spans),
        carrier_(network, trace, options.classes),
        progress_(index_),
        streams_(index_, options.jitter, options.seed),
        collectives_(index_),
        gradients_(index_, policies, options.channel_width) {}

  Result<TrainingRun> run();

 private:
  Status run_instant();
  Status settle();
  void begin_iterations();
  Status finish_due(bool& moved);
  void finish(const std::vector<TraceNetwork::Finish>& finishes) {
    for (const TraceNetwork::Finish& one : finishes) {
      std::visit([&](const auto& what) { finish(what); }, carrier_.operation(one));
    }
  }
  void finish(const ChannelRun& run) {
    const std::vector<WorkerNode> nodes = collectives_.finish(run.channel);
    for (const WorkerNode one : nodes) {
      if (index_.node(one).kind != TraceNodeKind::kCollective) {
        streams_.release(one);
      }
    }
    finish_all(nodes);
  }
  void finish(const GradientCollective& one) { gradients_.finish(one, now_ps_); }
  void finish(const Sent& sent);
  void drain();
  void node_ready(WorkerNode one);
  void start_streams(bool& moved);
  Status start_collectives(bool& moved);
  Status start_gradients(bool& moved);
  Status start_sends(bool& moved);
  Result<bool> move_time();
  bool is_over() const {
    // One iteration is no period: it starts with parameters that nothing had to bring.
    return recorder_.steady() || recorder_.iterations() >= std::max(options_.most_iterations, 2);
  }
  Error stopped() const;
  void finish_all(std::span<const WorkerNode> nodes) {
    for (const WorkerNode one : nodes) {
      progress_.finish(one);
    }
  }

  const IterationOptions& options_;
  const TraceIndex index_;
  IterationRecorder recorder_;
  Carrier carrier_;
  TraceProgress progress_;
  TraceStreams streams_;
  TraceCollectives collectives_;
  TraceMessages messages_;
  TraceGradients gradients_;
  int64_t now_ps_ = 0;
};

Result<TrainingRun> Simulator::run() {
  for (;;) {
    PLEACH_TRY(run_instant());
    if (is_over()) {
      return recorder_.collect(gradients_.logs());
    }
    PLEACH_ASSIGN(moved, move_time());
    if (!moved) {
      return stopped();
    }
    if (now_ps_ > kLongestPs) {
      return invalid(
          fmt::format("{} iterations take longer than {}", options_.most_iterations, kLongestText));
    }
  }
}

// Everything that happens now. The policies decide when all else of this instant is known.
Status Simulator::run_instant() {
  for (bool moved = true; moved;) {
    check_interruption();
    PLEACH_TRY(settle());
    moved = false;
    if (!is_over() && gradients_.has_next(now_ps_)) {
      PLEACH_TRY(start_gradients(moved));
    }
  }
  return ok();
}

// What ends now and what starts without a policy, in rounds.
Status Simulator::settle() {
  for (bool moved = true; moved && !is_over();) {
    moved = false;
    if (progress_.has_beginning()) {
      begin_iterations();
    }
    PLEACH_TRY(finish_due(moved));
    drain();
    if (gradients_.has_gates()) {
      const std::span<const WorkerNode> open = gradients_.open_gates(now_ps_);
      moved = moved || !open.empty();
      finish_all(open);
      drain();
    }
    if (collectives_.has_next()) {
      PLEACH_TRY(start_collectives(moved));
    }
    if (messages_.has_sends()) {
      PLEACH_TRY(start_sends(moved));
    }
    start_streams(moved);
    moved = moved || progress_.has_beginning();
  }
  return ok();
}

void Simulator::begin_iterations() {
  for (const int32_t worker : progress_.take_beginning()) {
    for (const int32_t node : progress_.begin(worker)) {
      node_ready({worker, node});
    }
  }
}

Status Simulator::finish_due(bool& moved) {
  const std::span<const WorkerNode> ended = streams_.finish(now_ps_);
  moved = moved || !ended.empty();
  finish_all(ended);
  while (carrier_.next_ps() == now_ps_) {
    PLEACH_ASSIGN(finishes, carrier_.advance(now_ps_));
    moved = true;
    finish(finishes);
  }
  return ok();
}

void Simulator::finish(const Sent& sent) {
  progress_.finish(sent.node);
  const TraceNode& send = index_.node(sent.node);
  const std::optional<WorkerNode> receive = messages_.arrive({.source = sent.node.worker,
                                                              .target = send.peer,
                                                              .tag = send.tag,
                                                              .iteration = sent.iteration});
  if (receive.has_value()) {
    recorder_.message_arrived(*receive, sent.sent_ps);
    progress_.finish(*receive);
  }
}

// Tells those that wait for finished nodes, until nothing more follows at once.
void Simulator::drain() {
  while (const std::optional<WorkerNode> done = progress_.take_finished()) {
    recorder_.node_finished(done->worker, done->node, now_ps_);
    gradients_.node_finished(*done);
    const TraceProgress::Completion follows = progress_.complete(*done);
    for (const int32_t node : follows.ready) {
      node_ready({done->worker, node});
    }
    if (follows.ends_worker) {
      // A gradient takes no time: what it waited for does.
      const bool is_gradient = index_.node(*done).kind == TraceNodeKind::kGradient;
      recorder_.worker_finished(done->worker, is_gradient ? progress_.woken_by(*done) : done->node,
                                now_ps_);
    }
    if (follows.ends_iteration) {
      recorder_.iteration_finished(now_ps_, options_.jitter <= 0 && gradients_.are_settled());
      gradients_.forget_before(progress_.iteration(done->worker) - 3);
    }
  }
}

void Simulator::node_ready(WorkerNode one) {
  const TraceNode& node = index_.node(one);
  const int32_t iteration = progress_.iteration(one.worker);
  switch (node.kind) {
    case TraceNodeKind::kCompute:
    case TraceNodeKind::kLoad:
    case TraceNodeKind::kStore:
      return streams_.ready(one);
    case TraceNodeKind::kCollective:
      return collectives_.come(one);
    case TraceNodeKind::kSend:
      return messages_.send(one);
    case TraceNodeKind::kReceive:
      if (messages_.receive(
              {.source = node.peer, .target = one.worker, .tag = node.tag, .iteration = iteration},
              one.node)) {
        progress_.finish(one);
      }
      return;
    case TraceNodeKind::kGradient:
      gradients_.gradient_ready(one, now_ps_);
      return progress_.finish(one);
    case TraceNodeKind::kForwardGate:
    case TraceNodeKind::kBackwardGate:
      return gradients_.come_to_gate(one, iteration, now_ps_);
  }
}

void Simulator::start_streams(bool& moved) {
  for (const StreamRun& run : streams_.start(now_ps_)) {
    const auto [worker, node] = run.node;
    moved = true;
    if (run.has_family) {
      collectives_.come(run.node);
      continue;
    }
    if (run.computes) {
      recorder_.waited(worker, progress_.woken_by(run.node), run.waited_ps, now_ps_);
    }
    recorder_.node_started(worker, node, now_ps_, run.duration_ps);
  }
}

Status Simulator::start_gradients(bool& moved) {
  PLEACH_ASSIGN(started, gradients_.start(now_ps_));
  for (const GradientCollective& one : started) {
    recorder_.collective_started(one.group, gradients_.hosted(one), now_ps_);
    PLEACH_TRY(carrier_.start(gradients_.carried(one), one, now_ps_));
    moved = true;
  }
  return ok();
}

Status Simulator::start_collectives(bool& moved) {
  for (const int32_t number : collectives_.start()) {
    const std::span<const WorkerNode> nodes = collectives_.running(number);
    for (const auto [worker, node] : nodes) {
      recorder_.node_started(worker, node, now_ps_, 0);
    }
    const TraceNode& first = index_.node(nodes.front());
    const bool is_io = first.kind != TraceNodeKind::kCollective;
    PLEACH_TRY(
        carrier_.start(GroupCollective{.family = first.family,
                                       .groups = &index_.channels()[at(number)].groups,
                                       .kind = is_io ? io_collective(first.kind) : first.collective,
                                       .size_bytes = first.size_bytes},
                       ChannelRun{number}, now_ps_));
    moved = true;
  }
  return ok();
}

Status Simulator::start_sends(bool& moved) {
  for (const WorkerNode one : messages_.take_sends()) {
    const TraceNode& send = index_.node(one);
    const auto& workers = index_.trace().workers;
    const Sent sent = {one, progress_.iteration(one.worker), now_ps_};
    if (send.family >= 0) {
      const int32_t channel = index_.channel_of(one.worker, send.family);
      PLEACH_TRY(carrier_.start(GroupCollective{.family = send.family,
                                                .groups = &index_.channels()[at(channel)].groups,
                                                .kind = CollectiveKind::kBroadcast,
                                                .size_bytes = send.size_bytes},
                                sent, now_ps_));
    } else {
      PLEACH_TRY(carrier_.start(WorkerSend{.sources = &workers[at(one.worker)].ranks,
                                           .targets = &workers[at(send.peer)].ranks,
                                           .size_bytes = send.size_bytes},
                                sent, now_ps_));
    }
    moved = true;
  }
  return ok();
}

// To the next time at which something happens. Returns false if nothing ever does.
Result<bool> Simulator::move_time() {
  const int64_t next_ps = std::min(streams_.next_ps(), gradients_.next_ps());
  while (carrier_.next_ps().has_value() && *carrier_.next_ps() <= next_ps) {
    PLEACH_ASSIGN(finishes, carrier_.advance(next_ps));
    if (!finishes.empty()) {
      now_ps_ = finishes.front().time_ps;
      finish(finishes);
      return true;
    }
  }
  if (next_ps == INT64_MAX) {
    return false;
  }
  now_ps_ = next_ps;
  return true;
}

Error Simulator::stopped() const {
  const Trace& trace = index_.trace();
  if (const std::optional<WorkerNode> gate = gradients_.first_waiting()) {
    return invalid(
        fmt::format("training stops: {} waits for its parameters (worker {}), and the policy has "
                    "nothing on the wire",
                    trace.names[at(index_.node(*gate).name)], gate->worker));
  }
  std::vector<TraceWait> waits = collectives_.waits();
  const std::vector<TraceWait> receives = messages_.waits();
  waits.insert(waits.end(), receives.begin(), receives.end());
  return trace_stop(trace, waits);
}

}  // namespace

TrainingProfile profile_of(const GradientGroup& group) {
  TrainingProfile profile;
  profile.rank_count = group.rank_count;
  for (const GradientLayer& layer : group.layers) {
    profile.layers.push_back({.tensor_bytes = layer.tensor_bytes,
                              .forward_ps = layer.forward_ps,
                              .backward_ps = layer.backward_ps,
                              .weight_gradient_ps = layer.weight_gradient_ps,
                              .exchange_bytes = layer.exchange_bytes,
                              .continues_block = layer.continues_block});
  }
  return profile;
}

Result<TrainingRun> simulate_training(const Trace& trace, std::span<Policy* const> policies,
                                      TraceNetwork& network, const IterationOptions& options) {
  PLEACH_TRY(check_trace(trace));
  PLEACH_CHECK(policies.size() == trace.gradient_groups.size(), "one policy per gradient group");
  return Simulator(trace, policies, network, options).run();
}

}  // namespace pleach
