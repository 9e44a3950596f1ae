#include "pleach/training/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/units.h"
#include "pleach/training/iteration_recorder.h"
#include "pleach/training/trace_index.h"

namespace pleach {
namespace {

// What an operation on the network completes.
struct Operation {
  enum class Kind : uint8_t { kChannel, kGradients, kSend };
  Kind kind = Kind::kChannel;
  int32_t number = 0;     // channel, gradient group, or worker
  int32_t node = 0;       // kSend; kGradients: number of the collective
  int32_t iteration = 0;  // kSend: of the worker
};

// Something that ends at a known time: a node on a stream, or the overhead before a collective.
struct Pending {
  int64_t time_ps = 0;
  bool is_overhead = false;
  int32_t number = 0;  // worker, or gradient group
  int32_t node = 0;    // or the collective's number
  auto operator<=>(const Pending&) const = default;
};

// A message, known by its sender, its receiver, its tag and the iteration.
using Message = std::tuple<int32_t, int32_t, int32_t, int32_t>;

constexpr std::size_t kStreams = 3;  // computation, load, store

std::size_t stream_of(TraceNodeKind kind) {
  return kind == TraceNodeKind::kCompute ? 0 : kind == TraceNodeKind::kLoad ? 1 : 2;
}

template <typename T>
using MinQueue = std::priority_queue<T, std::vector<T>, std::greater<>>;

struct WorkerState {
  std::vector<int32_t> missing;         // by node: dependencies not finished
  std::vector<TraceNodeKind> woken_by;  // by node: the kind of the last one to finish
  std::array<MinQueue<int32_t>, kStreams> ready;
  std::array<bool, kStreams> busy = {};
  std::set<int32_t> receiving;  // nodes that wait for their message
  int32_t left = 0;             // nodes not finished
  int32_t iteration = 0;
  int64_t idle_from_ps = 0;  // computation, since
};

struct ChannelState {
  std::vector<std::deque<int32_t>> issued;  // nodes, by position in the channel's workers
  std::vector<int32_t> running;             // the nodes on the wire, by the same position
};

struct GroupState {
  std::unique_ptr<GroupDriver> driver;
  std::vector<std::pair<LayerGate, int32_t>> gates;  // at which workers wait, and their nodes
};

class Simulator {
 public:
  Simulator(const Trace& trace, std::span<Policy* const> policies, TraceNetwork& network,
            const IterationOptions& options)
      : trace_(trace),
        index_(trace),
        network_(network),
        options_(options),
        rng_(options.seed),
        policies_(policies),
        recorder_(trace, options.keep_spans) {}

  Result<TrainingRun> run();

 private:
  void prepare();
  void begin_iteration(int32_t worker);
  Status run_instant();
  Status finish_due(bool& moved);
  void finish(const Operation& operation);
  void drain();
  void node_ready(int32_t worker, int32_t node);
  void node_done(int32_t worker, int32_t node);
  void end_forwards(int32_t worker, int32_t node);
  void worker_finished(int32_t worker);
  void start_streams(bool& moved);
  void start_streams_of(int32_t worker);
  void gradient_ready(int32_t worker, int32_t node);
  Status start_channels(bool& moved);
  Status start_groups(bool& moved);
  Status start_sends(bool& moved);
  Status put_on_wire(int32_t number, int32_t collective);
  void open_gates(GroupState& group, bool& moved);
  Result<bool> move_time();
  bool is_settled() const;
  bool is_over() const {
    // One iteration is no period: it starts with parameters that nothing had to bring.
    return recorder_.steady() || recorder_.iterations() >= std::max(options_.most_iterations, 2);
  }
  Error stopped() const;
  int64_t duration_ps(int32_t worker, const TraceNode& node);
  const TraceNode& node_of(int32_t worker, int32_t node) const {
    return trace_.workers[at(worker)].nodes[at(node)];
  }

  const Trace& trace_;
  const TraceIndex index_;
  TraceNetwork& network_;
  const IterationOptions& options_;
  Rng rng_;
  const std::span<Policy* const> policies_;
  IterationRecorder recorder_;
  std::vector<WorkerState> workers_;
  std::vector<ChannelState> channels_;
  std::vector<GroupState> groups_;
  std::vector<Operation> operations_;  // by number
  MinQueue<Pending> pending_;
  std::vector<std::pair<int32_t, int32_t>> stack_;  // worker, node: done, not yet told
  std::vector<std::pair<int32_t, int32_t>> sends_;  // worker, node: ready to start
  std::vector<int32_t> touched_channels_;
  std::vector<int32_t> touched_workers_;
  std::vector<int32_t> beginning_;  // workers whose next iteration begins
  std::vector<int32_t> finished_;   // workers that wait for the others before it does
  bool starts_together_ = false;    // no gradients that the workers wait for
  std::set<Message> messages_;      // arrived, not received
  int64_t now_ps_ = 0;
};

void Simulator::prepare() {
  workers_.resize(trace_.workers.size());
  for (const TraceChannel& channel : index_.channels()) {
    channels_.emplace_back().issued.resize(channel.workers.size());
  }
  starts_together_ = std::ranges::none_of(trace_.workers, [](const WorkerTrace& worker) {
    return std::ranges::any_of(
        worker.nodes, [](const TraceNode& node) { return node.kind == TraceNodeKind::kGradient; });
  });
  for (std::size_t group = 0; group < trace_.gradient_groups.size(); ++group) {
    GroupState& state = groups_.emplace_back();
    const GradientGroup& own = trace_.gradient_groups[group];
    state.driver =
        std::make_unique<GroupDriver>(profile_of(own), *policies_[group],
                                      GroupSetting{.workers = count_of(own.workers),
                                                   .watched_worker = own.workers.front(),
                                                   .channel_width = options_.channel_width});
  }
}

void Simulator::begin_iteration(int32_t worker) {
  const WorkerTrace& trace = trace_.workers[at(worker)];
  WorkerState& state = workers_[at(worker)];
  const auto count = count_of(trace.nodes);
  state.left = count;
  state.missing.resize(trace.nodes.size());
  state.woken_by.assign(trace.nodes.size(), TraceNodeKind::kSend);
  for (int32_t node = 0; node < count; ++node) {
    state.missing[at(node)] =
        trace.first_dependency[at(node) + 1] - trace.first_dependency[at(node)];
  }
  for (int32_t node = 0; node < count; ++node) {
    if (trace.first_dependency[at(node) + 1] == trace.first_dependency[at(node)]) {
      node_ready(worker, node);
    }
  }
}

Result<TrainingRun> Simulator::run() {
  prepare();
  for (int32_t worker = 0; worker < count_of(workers_); ++worker) {
    beginning_.push_back(worker);
  }
  for (;;) {
    PLEACH_TRY(run_instant());
    if (is_over()) {
      break;
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
  std::vector<const PolicyHost*> hosts;
  for (const GroupState& group : groups_) {
    hosts.push_back(&group.driver->host());
  }
  return recorder_.collect(hosts);
}

// Everything that happens now, in rounds: what ends, what the policies decide, what starts.
Status Simulator::run_instant() {
  for (bool moved = true; moved && !is_over();) {
    moved = false;
    for (const int32_t worker : std::exchange(beginning_, {})) {
      begin_iteration(worker);
    }
    PLEACH_TRY(finish_due(moved));
    drain();
    for (GroupState& group : groups_) {
      open_gates(group, moved);
    }
    drain();
    PLEACH_TRY(start_groups(moved));
    PLEACH_TRY(start_channels(moved));
    PLEACH_TRY(start_sends(moved));
    start_streams(moved);
    moved = moved || !beginning_.empty();
  }
  return ok();
}

Status Simulator::finish_due(bool& moved) {
  while (!pending_.empty() && pending_.top().time_ps == now_ps_) {
    const Pending due = pending_.top();
    pending_.pop();
    moved = true;
    if (due.is_overhead) {
      PLEACH_TRY(put_on_wire(due.number, due.node));
      continue;
    }
    const std::size_t stream = stream_of(node_of(due.number, due.node).kind);
    workers_[at(due.number)].busy[stream] = false;
    touched_workers_.push_back(due.number);
    if (stream == 0) {
      workers_[at(due.number)].idle_from_ps = now_ps_;
    }
    stack_.emplace_back(due.number, due.node);
  }
  while (network_.next_ps() == now_ps_) {
    PLEACH_ASSIGN(finishes, network_.advance(now_ps_));
    moved = true;
    for (const TraceNetwork::Finish& one : finishes) {
      finish(operations_[at(one.operation)]);
    }
  }
  return ok();
}

void Simulator::finish(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kChannel: {
      const TraceChannel& channel = index_.channels()[at(operation.number)];
      ChannelState& state = channels_[at(operation.number)];
      for (std::size_t i = 0; i < channel.workers.size(); ++i) {
        stack_.emplace_back(channel.workers[i], state.running[i]);
      }
      state.running.clear();
      touched_channels_.push_back(operation.number);
      return;
    }
    case Operation::Kind::kGradients:
      return groups_[at(operation.number)].driver->finish(operation.node, now_ps_);
    case Operation::Kind::kSend: {
      const TraceNode& node = node_of(operation.number, operation.node);
      stack_.emplace_back(operation.number, operation.node);
      messages_.emplace(operation.number, node.peer, node.tag, operation.iteration);
      WorkerState& peer = workers_[at(node.peer)];
      for (const int32_t waiting : peer.receiving) {
        const TraceNode& receive = node_of(node.peer, waiting);
        if (receive.peer == operation.number && receive.tag == node.tag &&
            peer.iteration == operation.iteration) {
          stack_.emplace_back(node.peer, waiting);
          messages_.erase({operation.number, node.peer, node.tag, operation.iteration});
          peer.receiving.erase(waiting);
          return;
        }
      }
      return;
    }
  }
}

// Tells those that wait for finished nodes, until nothing more follows at once.
void Simulator::drain() {
  while (!stack_.empty()) {
    const auto [worker, node] = stack_.back();
    stack_.pop_back();
    node_done(worker, node);
  }
}

void Simulator::node_done(int32_t worker, int32_t node) {
  WorkerState& state = workers_[at(worker)];
  const TraceNodeKind kind = node_of(worker, node).kind;
  recorder_.node_finished(worker, node, now_ps_);
  end_forwards(worker, node);
  for (const int32_t next : index_.successors(worker, node)) {
    if (--state.missing[at(next)] == 0) {
      state.woken_by[at(next)] = kind;
      node_ready(worker, next);
    }
  }
  if (--state.left == 0) {
    ++state.iteration;
    worker_finished(worker);
  }
}

// The forward of a layer has ended when the computation that waited at its gate has.
void Simulator::end_forwards(int32_t worker, int32_t node) {
  const WorkerTrace& trace = trace_.workers[at(worker)];
  for (int32_t i = trace.first_dependency[at(node)]; i < trace.first_dependency[at(node) + 1];
       ++i) {
    const TraceNode& before = trace.nodes[at(trace.dependencies[at(i)])];
    if (before.kind == TraceNodeKind::kForwardGate) {
      groups_[at(before.gradient_group)].driver->forward_finished(before.layer);
    }
  }
}

void Simulator::worker_finished(int32_t worker) {
  finished_.push_back(worker);
  if (starts_together_ && finished_.size() < workers_.size()) {
    return;
  }
  beginning_.insert(beginning_.end(), finished_.begin(), finished_.end());
  finished_.clear();
  if (worker == 0 || starts_together_) {
    recorder_.iteration_finished(now_ps_, is_settled());
    for (GroupState& group : groups_) {
      group.driver->forget_before(workers_[at(worker)].iteration - 3);
    }
  }
}

void Simulator::node_ready(int32_t worker, int32_t number) {
  WorkerState& state = workers_[at(worker)];
  const TraceNode& node = node_of(worker, number);
  switch (node.kind) {
    case TraceNodeKind::kCompute:
    case TraceNodeKind::kLoad:
    case TraceNodeKind::kStore:
      state.ready[stream_of(node.kind)].push(number);
      touched_workers_.push_back(worker);
      return;
    case TraceNodeKind::kCollective: {
      const int32_t channel = index_.channel_of(worker, node.family);
      channels_[at(channel)].issued[at(index_.position_in(channel, worker))].push_back(number);
      touched_channels_.push_back(channel);
      return;
    }
    case TraceNodeKind::kSend:
      sends_.emplace_back(worker, number);
      return;
    case TraceNodeKind::kReceive:
      if (messages_.erase({node.peer, worker, node.tag, state.iteration}) > 0) {
        stack_.emplace_back(worker, number);
      } else {
        state.receiving.insert(number);
      }
      return;
    case TraceNodeKind::kGradient:
      return gradient_ready(worker, number);
    case TraceNodeKind::kForwardGate:
    case TraceNodeKind::kBackwardGate:
      groups_[at(node.gradient_group)].gates.emplace_back(
          LayerGate{.is_forward = node.kind == TraceNodeKind::kForwardGate,
                    .layer = node.layer,
                    .worker = worker,
                    .iteration = state.iteration},
          number);
      return;
  }
}

// When all that follows from the instant's events is ready, so that the order of equal events does
// not count.
void Simulator::start_streams(bool& moved) {
  for (const int32_t worker : std::exchange(touched_workers_, {})) {
    start_streams_of(worker);
    moved = true;
  }
}

// Each stream runs its ready nodes one at a time, in the trace's order.
void Simulator::start_streams_of(int32_t worker) {
  WorkerState& state = workers_[at(worker)];
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    if (state.busy[stream] || state.ready[stream].empty()) {
      continue;
    }
    const int32_t node = state.ready[stream].top();
    state.ready[stream].pop();
    state.busy[stream] = true;
    if (stream == 0) {
      recorder_.waited(worker, state.woken_by[at(node)], now_ps_ - state.idle_from_ps);
    }
    const int64_t duration = duration_ps(worker, node_of(worker, node));
    recorder_.node_started(worker, node, now_ps_, duration);
    pending_.push({now_ps_ + duration, false, worker, node});
  }
}

// A node's time, with its noise: the slowest of n ranks, whose exponential noises are independent.
int64_t Simulator::duration_ps(int32_t worker, const TraceNode& node) {
  if (options_.jitter <= 0 || node.kind != TraceNodeKind::kCompute) {
    return node.duration_ps;
  }
  const auto ranks = static_cast<double>(trace_.workers[at(worker)].ranks.size());
  const double slowest = -std::log1p(-std::pow(rng_.unit(), 1 / ranks));
  const double noisy_ps = static_cast<double>(node.duration_ps) * (1 + options_.jitter * slowest);
  return static_cast<int64_t>(std::min(noisy_ps, static_cast<double>(kLongestPs + 1)));
}

void Simulator::gradient_ready(int32_t worker, int32_t number) {
  const TraceNode& node = node_of(worker, number);
  groups_[at(node.gradient_group)].driver->gradient_ready(node.layer, now_ps_);
  stack_.emplace_back(worker, number);
}

void Simulator::open_gates(GroupState& group, bool& moved) {
  std::erase_if(group.gates, [&](const auto& waiting) {
    const auto& [gate, node] = waiting;
    if (!group.driver->pass(gate, now_ps_)) {
      return false;
    }
    stack_.emplace_back(gate.worker, node);
    moved = true;
    return true;
  });
}

Status Simulator::start_groups(bool& moved) {
  for (int32_t number = 0; number < count_of(groups_); ++number) {
    PLEACH_ASSIGN(starting, groups_[at(number)].driver->next(now_ps_));
    for (const HostedCollective& one : starting) {
      moved = true;
      recorder_.collective_started(number, one, now_ps_);
      if (one.what.overhead_ps > 0) {
        pending_.push({add_times_ps(now_ps_, one.what.overhead_ps), true, number, one.number});
      } else {
        PLEACH_TRY(put_on_wire(number, one.number));
      }
    }
  }
  return ok();
}

Status Simulator::put_on_wire(int32_t number, int32_t collective) {
  const GradientGroup& group = trace_.gradient_groups[at(number)];
  const PolicyCollective& what = groups_[at(number)].driver->host().on_wire(collective).what;
  const int32_t channel = index_.channel_of(group.workers.front(), group.family);
  PLEACH_ASSIGN(operation, network_.start(
                               GroupCollective{
                                   .family = group.family,
                                   .groups = &index_.channels()[at(channel)].groups,
                                   .kind = what.kind,
                                   .size_bytes = what.range.size(),
                               },
                               now_ps_));
  operations_.resize(at(operation) + 1);
  operations_[at(operation)] = {
      .kind = Operation::Kind::kGradients, .number = number, .node = collective};
  return ok();
}

// A channel's next collective starts when all of its workers have come to it.
Status Simulator::start_channels(bool& moved) {
  std::sort(touched_channels_.begin(), touched_channels_.end());
  touched_channels_.erase(std::unique(touched_channels_.begin(), touched_channels_.end()),
                          touched_channels_.end());
  for (const int32_t number : std::exchange(touched_channels_, {})) {
    ChannelState& state = channels_[at(number)];
    const TraceChannel& channel = index_.channels()[at(number)];
    if (!state.running.empty() || std::any_of(state.issued.begin(), state.issued.end(),
                                              [](const auto& queue) { return queue.empty(); })) {
      continue;
    }
    for (auto& queue : state.issued) {
      state.running.push_back(queue.front());
      queue.pop_front();
    }
    const TraceNode& node = node_of(channel.workers.front(), state.running.front());
    for (std::size_t i = 0; i < channel.workers.size(); ++i) {
      recorder_.node_started(channel.workers[i], state.running[i], now_ps_, 0);
    }
    PLEACH_ASSIGN(operation, network_.start(GroupCollective{.family = channel.family,
                                                            .groups = &channel.groups,
                                                            .kind = node.collective,
                                                            .size_bytes = node.size_bytes},
                                            now_ps_));
    operations_.resize(at(operation) + 1);
    operations_[at(operation)] = {.kind = Operation::Kind::kChannel, .number = number};
    moved = true;
  }
  return ok();
}

Status Simulator::start_sends(bool& moved) {
  for (const auto& [worker, number] : std::exchange(sends_, {})) {
    const TraceNode& node = node_of(worker, number);
    PLEACH_ASSIGN(operation, network_.start(WorkerSend{.source = worker,
                                                       .target = node.peer,
                                                       .size_bytes = node.size_bytes},
                                            now_ps_));
    operations_.resize(at(operation) + 1);
    operations_[at(operation)] = {.kind = Operation::Kind::kSend,
                                  .number = worker,
                                  .node = number,
                                  .iteration = workers_[at(worker)].iteration};
    moved = true;
  }
  return ok();
}

// To the next time at which something happens. Returns false if nothing ever does.
Result<bool> Simulator::move_time() {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  int64_t next_ps = pending_.empty() ? kNever : pending_.top().time_ps;
  for (const GroupState& group : groups_) {
    if (group.driver->wake_ps() >= 0) {
      next_ps = std::min(next_ps, group.driver->wake_ps());
    }
  }
  while (network_.next_ps().has_value() && *network_.next_ps() <= next_ps) {
    PLEACH_ASSIGN(finishes, network_.advance(next_ps));
    if (!finishes.empty()) {
      now_ps_ = finishes.front().time_ps;
      for (const TraceNetwork::Finish& one : finishes) {
        finish(operations_[at(one.operation)]);
      }
      return true;
    }
  }
  if (next_ps == kNever) {
    return false;
  }
  now_ps_ = next_ps;
  return true;
}

bool Simulator::is_settled() const {
  return options_.jitter <= 0 &&
         std::all_of(policies_.begin(), policies_.end(),
                     [](const Policy* policy) { return policy->settled(); });
}

Error Simulator::stopped() const {
  for (const GroupState& group : groups_) {
    for (const auto& [gate, number] : group.gates) {
      const TraceNode& node = node_of(gate.worker, number);
      return {ErrorCode::kInvalidArgument,
              fmt::format("training stops: {} waits for its parameters (worker {}), and the policy "
                          "has nothing on the wire",
                          trace_.names[at(node.name)], gate.worker)};
    }
  }
  for (std::size_t worker = 0; worker < workers_.size(); ++worker) {
    for (std::size_t node = 0; node < workers_[worker].missing.size(); ++node) {
      const TraceNode& one = trace_.workers[worker].nodes[node];
      const bool waits =
          one.kind == TraceNodeKind::kReceive || one.kind == TraceNodeKind::kCollective;
      if (waits && workers_[worker].missing[node] == 0 &&
          (one.kind == TraceNodeKind::kCollective ||
           workers_[worker].receiving.contains(static_cast<int32_t>(node)))) {
        return {ErrorCode::kInvalidArgument,
                fmt::format("the trace stops: rank {} waits in {} '{}'",
                            trace_.workers[worker].ranks.front(),
                            one.kind == TraceNodeKind::kReceive ? "receive" : "collective",
                            trace_.names[at(one.name)])};
      }
    }
  }
  return {ErrorCode::kInvalidArgument, "the trace stops: no node can run"};
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
                              .exchange_bytes = layer.exchange_bytes});
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
