#include "pleach/training/trace_gradients.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/training/simulator.h"

namespace pleach {

TraceGradients::TraceGradients(const TraceIndex& index, std::span<Policy* const> policies,
                               int32_t channel_width)
    : index_(index), policies_(policies) {
  for (std::size_t group = 0; group < policies.size(); ++group) {
    const GradientGroup& own = index.trace().gradient_groups[group];
    groups_.emplace_back().driver =
        std::make_unique<GroupDriver>(profile_of(own), *policies[group],
                                      GroupSetting{.workers = count_of(own.workers),
                                                   .watched_worker = own.workers.front(),
                                                   .channel_width = channel_width});
  }
  for (int32_t worker = 0; worker < count_of(index.trace().workers); ++worker) {
    const auto count = count_of(index.trace().workers[at(worker)].nodes);
    std::vector<bool>& has_gate = has_gate_.emplace_back(at(count), false);
    for (int32_t node = 0; node < count; ++node) {
      if (index.node({worker, node}).kind == TraceNodeKind::kForwardGate) {
        for (const int32_t next : index.successors({worker, node})) {
          has_gate[at(next)] = true;
        }
      }
    }
  }
}

void TraceGradients::gradient_ready(WorkerNode node, int64_t now_ps) {
  const TraceNode& gradient = index_.node(node);
  groups_[at(gradient.gradient_group)].driver->gradient_ready(gradient.layer, now_ps);
}

void TraceGradients::come_to_gate(WorkerNode node, int32_t iteration, int64_t now_ps) {
  const TraceNode& gate = index_.node(node);
  Group& group = groups_[at(gate.gradient_group)];
  group.gates.push_back({.gate = {.is_forward = gate.kind == TraceNodeKind::kForwardGate,
                                  .layer = gate.layer,
                                  .worker = node.worker,
                                  .iteration = iteration},
                         .node = node.node});
  group.driver->come(group.gates.back().gate, now_ps);
}

// The forward of a layer has ended when the computation that waited at its gate has.
void TraceGradients::end_forwards(WorkerNode node) {
  for (const int32_t before : index_.dependencies(node)) {
    const TraceNode& gate = index_.node({node.worker, before});
    if (gate.kind == TraceNodeKind::kForwardGate) {
      groups_[at(gate.gradient_group)].driver->forward_finished(gate.layer);
    }
  }
}

void TraceGradients::finish(const GradientCollective& one, int64_t now_ps) {
  groups_[at(one.group)].driver->finish(one.number, now_ps);
}

std::span<const WorkerNode> TraceGradients::open_gates(int64_t now_ps) {
  open_.clear();
  for (Group& group : groups_) {
    std::erase_if(group.gates, [&](const WaitingGate& one) {
      const bool passes = group.driver->pass(one.gate, now_ps);
      if (passes) {
        open_.push_back({one.gate.worker, one.node});
      }
      return passes;
    });
  }
  return open_;
}

Result<std::vector<GradientCollective>> TraceGradients::start(int64_t now_ps) {
  std::vector<GradientCollective> started;
  for (int32_t group = 0; group < count_of(groups_); ++group) {
    PLEACH_ASSIGN(next, groups_[at(group)].driver->next(now_ps));
    for (const HostedCollective& one : next) {
      started.push_back({group, one.number});
    }
  }
  return started;
}

int64_t TraceGradients::next_ps() const {
  int64_t next_ps = INT64_MAX;
  for (const Group& group : groups_) {
    if (group.driver->wake_ps() >= 0) {
      next_ps = std::min(next_ps, group.driver->wake_ps());
    }
  }
  return next_ps;
}

GroupCollective TraceGradients::carried(const GradientCollective& one) const {
  const GradientGroup& group = index_.trace().gradient_groups[at(one.group)];
  const PolicyCollective& what = hosted(one).what;
  const int32_t channel = index_.channel_of(group.workers.front(), group.family);
  return {.family = group.family,
          .groups = &index_.channels()[at(channel)].groups,
          .kind = what.kind,
          .size_bytes = what.range.size()};
}

bool TraceGradients::are_settled() const {
  return std::ranges::all_of(policies_, [](const Policy* policy) { return policy->settled(); });
}

std::optional<WorkerNode> TraceGradients::first_waiting() const {
  for (const Group& group : groups_) {
    if (!group.gates.empty()) {
      return WorkerNode{group.gates.front().gate.worker, group.gates.front().node};
    }
  }
  return std::nullopt;
}

std::vector<std::span<const HostedCollective>> TraceGradients::logs() const {
  std::vector<std::span<const HostedCollective>> logs;
  for (const Group& group : groups_) {
    logs.push_back(group.driver->host().log());
  }
  return logs;
}

void TraceGradients::forget_before(int32_t iteration) {
  for (Group& group : groups_) {
    group.driver->forget_before(iteration);
  }
}

}  // namespace pleach
