// PolicyHost: what surrounds a policy wherever it runs: its channel, the state of every parameter,
// and the proof that its decisions are synchronous training.
//
// Time is the caller's. Within one instant: report facts, then settle(), then start what next()
// gives when the channel is idle; repeat while anything happened.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/byte_set.h"
#include "pleach/policy/policy.h"

namespace pleach {

// The life of one collective.
struct HostedCollective {
  PolicyCollective what;
  int32_t number = 0;
  int32_t iteration = 0;  // whose gradients it carries, from 0
  int64_t ready_ps = 0;   // what it needs was there (gradients, or the reduce_scatter)
  int64_t issued_ps = 0;  // the policy's decision
  int64_t started_ps = 0;
  int64_t finished_ps = 0;
  int64_t exposed_ps = 0;  // of its time on the wire during which computation stood still
};

class PolicyHost {
 public:
  // Both outlive the host. `profile` is checked.
  PolicyHost(const TrainingProfile& profile, Policy& policy);

  // Facts. A layer's forward or backward is "needed" when a rank has come to it.
  void gradient_ready(int32_t layer, int64_t now_ps);
  void forward_needed(int32_t layer, int64_t now_ps);
  void backward_needed(int32_t layer, int64_t now_ps);
  void forward_finished(int32_t layer);
  void wake(int64_t now_ps);
  // The collective on the wire has finished.
  void finish(int64_t now_ps);

  // Lets the policy decide, if there are new facts. Errors: kInvalidArgument: a decision breaks
  // synchronous training (names the collective, the bytes and what is missing).
  Status settle(int64_t now_ps);
  // Puts the next collective on the wire, if the channel is idle and one is waiting.
  const HostedCollective* next(int64_t now_ps);
  const HostedCollective* on_wire() const { return busy_ ? &log_.back() : nullptr; }

  // Gates.
  bool may_run_forward(int32_t layer) const;
  bool may_run_backward(int32_t layer) const;
  // When the policy wants to be woken; −1 never.
  int64_t wake_ps() const { return wake_ps_; }

  const PolicyNeeds& needs() const { return needs_; }
  const ParameterSpace& space() const { return space_; }
  // Computation stood still in [from_ps, to_ps]: charges the collectives on the wire then.
  void charge_stall(int64_t from_ps, int64_t to_ps);
  // Every collective started so far, in order on the wire; forget_before drops older iterations.
  std::span<const HostedCollective> log() const { return log_; }
  void forget_before(int32_t iteration);

 private:
  Status check(const PolicyCollective& what) const;
  int64_t ready_time(const PolicyCollective& what) const;
  void tell(EventKind kind, int64_t now_ps, int32_t index);
  void tell_of(int32_t layer, EventKind kind, int64_t now_ps);

  Policy& policy_;
  ParameterSpace space_;
  PolicyNeeds needs_;
  ByteSet taken_;      // by a reduction of this iteration, started or waiting
  ByteSet reduced_;    // by a finished reduction
  ByteSet gathering_;  // by an all_gather for forward
  ByteSet available_;  // may be used by forward
  ByteSet backward_gathering_;
  ByteSet backward_available_;
  std::vector<int64_t> gradient_ps_;      // by layer: when its gradients were complete; −1: not
  std::vector<bool> forward_done_;        // since the last gradient
  std::vector<int32_t> iteration_;        // by layer: gradients completed
  std::deque<HostedCollective> waiting_;  // decided, not on the wire
  std::vector<HostedCollective> log_;
  int32_t next_number_ = 0;
  int64_t wake_ps_ = -1;
  bool busy_ = false;
  bool has_news_ = true;
};

}  // namespace pleach
