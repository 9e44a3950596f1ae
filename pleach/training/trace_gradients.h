// TraceGradients: the gradient groups of a trace, each driven by its policy: gates at which workers
// wait, and collectives on their way to the network.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/group_driver.h"
#include "pleach/training/trace_index.h"
#include "pleach/training/trace_network.h"

namespace pleach {

// A collective of a gradient group.
struct GradientCollective {
  int32_t group = 0;
  int32_t number = 0;  // as HostedCollective's
  bool operator==(const GradientCollective&) const = default;
};

// Not thread safe.
class TraceGradients {
 public:
  //   policies       one for each gradient group, in order; they outlive it, as `index` does
  //   channel_width  collectives of a group under way at once, ≥ 1
  TraceGradients(const TraceIndex& index, std::span<Policy* const> policies, int32_t channel_width);

  // Facts. A worker has come to its node, a gradient, or a gate of its iteration; a node of any
  // kind has ended; a collective has.
  void gradient_ready(WorkerNode node, int64_t now_ps);
  void come_to_gate(WorkerNode node, int32_t iteration, int64_t now_ps);
  void node_finished(WorkerNode node) {
    if (has_gate_[at(node.worker)][at(node.node)]) {
      end_forwards(node);
    }
  }
  void finish(const GradientCollective& one, int64_t now_ps);

  // Whether a worker waits at a gate.
  bool has_gates() const {
    return std::ranges::any_of(groups_, [](const Group& group) { return !group.gates.empty(); });
  }
  // The gates that open now. Valid until the next call.
  std::span<const WorkerNode> open_gates(int64_t now_ps);
  // Whether a policy may have something to start now.
  bool has_next(int64_t now_ps) const {
    return std::ranges::any_of(
        groups_, [now_ps](const Group& group) { return group.driver->has_next(now_ps); });
  }
  // The collectives that the policies start now. Errors: those of PolicyHost::next.
  Result<std::vector<GradientCollective>> start(int64_t now_ps);
  // When a policy wakes next; INT64_MAX: never.
  int64_t next_ps() const;

  // Of one that has started and not finished.
  const HostedCollective& hosted(const GradientCollective& one) const {
    return groups_[at(one.group)].driver->host().on_wire(one.number);
  }
  // As the network carries it.
  GroupCollective carried(const GradientCollective& one) const;

  // Whether no policy tries settings any more.
  bool are_settled() const;
  // A gate at which a worker waits; nothing: none does.
  std::optional<WorkerNode> first_waiting() const;
  // By group.
  std::vector<std::span<const HostedCollective>> logs() const;
  void forget_before(int32_t iteration);

 private:
  struct WaitingGate {
    LayerGate gate;
    int32_t node = 0;
  };
  struct Group {
    std::unique_ptr<GroupDriver> driver;
    std::vector<WaitingGate> gates;
  };
  void end_forwards(WorkerNode node);

  const TraceIndex& index_;
  const std::span<Policy* const> policies_;
  std::vector<Group> groups_;
  std::vector<std::vector<bool>> has_gate_;  // by worker, node: it waits for a forward gate
  std::vector<WorkerNode> open_;             // what open_gates has returned
};

}  // namespace pleach
