#include "pleach/policy/host.h"

#include <fmt/format.h>

#include <algorithm>

namespace pleach {

PolicyHost::PolicyHost(const TrainingProfile& profile, Policy& policy, int32_t channel_width)
    : policy_(policy),
      needs_(policy.needs()),
      parameters_(profile, needs_.frees_parameters),
      wire_(channel_width) {}

void PolicyHost::tell(EventKind kind, int64_t now_ps, int32_t index) {
  policy_.observe({kind, now_ps, index});
  has_news_ = true;
}

// Layers without tensors do not concern a policy.
void PolicyHost::tell_of(int32_t layer, EventKind kind, int64_t now_ps) {
  if (space().layer(layer).size() > 0) {
    tell(kind, now_ps, layer);
  }
}

void PolicyHost::gradient_ready(int32_t layer, int64_t now_ps) {
  parameters_.gradient_ready(layer, now_ps);
  tell_of(layer, EventKind::kGradientReady, now_ps);
}

void PolicyHost::forward_needed(int32_t layer, int64_t now_ps) {
  tell_of(layer, EventKind::kForwardNeeded, now_ps);
}

void PolicyHost::backward_needed(int32_t layer, int64_t now_ps) {
  tell_of(layer, EventKind::kBackwardNeeded, now_ps);
}

void PolicyHost::finish(int32_t number, int64_t now_ps) {
  land(number, now_ps);
  if (reduces(wire_.find(number)->what.kind)) {
    update(number, now_ps);
  }
}

void PolicyHost::land(int32_t number, int64_t now_ps) {
  const PolicyCollective& what = wire_.finish(number, now_ps).what;
  if (!reduces(what.kind)) {
    parameters_.finish(what);
    tell(EventKind::kCollectiveFinished, now_ps, number);
  }
}

void PolicyHost::update(int32_t number, int64_t now_ps) {
  parameters_.finish(wire_.update(number, now_ps).what);
  tell(EventKind::kCollectiveFinished, now_ps, number);
}

void PolicyHost::repeat() {
  parameters_.repeat();
  wire_.drop_reductions();
  has_news_ = true;
}

Result<std::span<const HostedCollective>> PolicyHost::next(int64_t now_ps) {
  if (wake_ps_ >= 0 && wake_ps_ <= now_ps) {
    wake_ps_ = -1;
    tell(EventKind::kWake, now_ps, 0);
  }
  if (has_news_) {
    has_news_ = false;
    PLEACH_TRY(decide(now_ps));
  }
  return wire_.start(now_ps);
}

Status PolicyHost::decide(int64_t now_ps) {
  PolicyActions actions;
  policy_.decide(now_ps, actions);
  for (const PolicyCollective& what : actions.start) {
    PLEACH_TRY(parameters_.start(what));
    wire_.issue({.what = what,
                 .iteration = parameters_.iteration_of(what.range),
                 .ready_ps = reduces(what.kind) ? parameters_.gradients_ps(what.range)
                                                : wire_.reduced_ps(what.range),
                 .issued_ps = now_ps});
  }
  if (actions.wake_ps >= 0 && actions.wake_ps <= now_ps) {
    return invalid(fmt::format("the policy asks at {} ps to be woken at {} ps, which never comes",
                               now_ps, actions.wake_ps));
  }
  if (actions.wake_ps > now_ps) {
    wake_ps_ = actions.wake_ps;
  }
  return ok();
}

bool PolicyHost::may_run_forward(int32_t layer) const {
  return parameters_.has_for_forward(needs_.step_at_once ? ByteRange{0, space().total_bytes()}
                                                         : space().layer(layer));
}

bool PolicyHost::may_run_backward(int32_t layer) const {
  return parameters_.has_for_backward(space().layer(layer));
}

}  // namespace pleach
