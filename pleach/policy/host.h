// PolicyHost: what surrounds a policy wherever it runs: its channel, the state of every parameter,
// and the proof that its decisions are synchronous training.
//
// Time is the caller's. At every instant: report facts, then start what next() gives; repeat while
// anything happens.
#pragma once

#include <cstdint>
#include <span>

#include "pleach/base/result.h"
#include "pleach/policy/parameter_state.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/wire.h"

namespace pleach {

class PolicyHost {
 public:
  // Both outlive the host. `profile` is checked.
  //   channel_width  collectives on the wire at once, ≥ 1
  PolicyHost(const TrainingProfile& profile, Policy& policy, int32_t channel_width = 1);

  // Facts, each of all ranks: they have the gradients, have come to forward or backward of a layer,
  // have done with its forward.
  void gradient_ready(int32_t layer, int64_t now_ps);
  void forward_needed(int32_t layer, int64_t now_ps);
  void forward_finished(int32_t layer) { parameters_.forward_finished(layer); }
  void backward_needed(int32_t layer, int64_t now_ps);
  // The collective of this number, which is on the wire, has finished.
  void finish(int32_t number, int64_t now_ps);
  // The same in two steps, where a reduction is of no use before its gradients have updated
  // parameters: it leaves the wire, and what it distributes is in place, unless it reduces; what it
  // reduced is used, once it has left the wire.
  void land(int32_t number, int64_t now_ps);
  void update(int32_t number, int64_t now_ps);
  // The iteration's gradients are dropped, and come again; the policy knows of it. Nothing is on
  // the wire, and nothing reduced has been used.
  void repeat();
  // Computation stands still for want of parameters from now on, and goes on again.
  void stand_still(int64_t now_ps) { wire_.stand_still(now_ps); }
  void go_on(int64_t now_ps) { wire_.go_on(now_ps); }

  // Whether next() has anything to do.
  bool has_next(int64_t now_ps) const {
    return has_news_ || wire_.may_start() || (wake_ps_ >= 0 && wake_ps_ <= now_ps);
  }
  // Lets the policy decide, if there is news for it. The collectives that start now, in order;
  // valid until the next call.
  //   errors  kInvalidArgument: a decision breaks synchronous training (names the collective, the
  //           bytes and what is missing)
  Result<std::span<const HostedCollective>> next(int64_t now_ps);
  // When to ask for the next one though nothing has happened; −1: never.
  int64_t wake_ps() const { return wake_ps_; }

  // Whether a layer's parameters are in place.
  bool may_run_forward(int32_t layer) const;
  bool may_run_backward(int32_t layer) const;

  const PolicyNeeds& needs() const { return needs_; }
  const ParameterSpace& space() const { return parameters_.space(); }
  // Whether all parameters are in place for forward.
  bool is_in_place() const { return parameters_.has_for_forward({0, space().total_bytes()}); }
  // As those of Wire.
  const HostedCollective& on_wire(int32_t number) const { return wire_.carried(number); }
  const HostedCollective* find(int32_t number) const { return wire_.find(number); }
  bool is_idle() const { return wire_.is_idle(); }
  std::span<const HostedCollective> log() const { return wire_.log(); }
  void forget_before(int32_t iteration) { wire_.forget_before(iteration); }

 private:
  void tell(EventKind kind, int64_t now_ps, int32_t index);
  void tell_of(int32_t layer, EventKind kind, int64_t now_ps);
  Status decide(int64_t now_ps);

  Policy& policy_;
  const PolicyNeeds needs_;
  ParameterState parameters_;
  Wire wire_;
  int64_t wake_ps_ = -1;
  bool has_news_ = true;
};

}  // namespace pleach
