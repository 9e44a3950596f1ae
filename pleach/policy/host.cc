#include "pleach/policy/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

std::string describe(const PolicyCollective& what) {
  return fmt::format("{} of bytes {} to {}", to_text(what.kind), what.range.begin, what.range.end);
}

Error illegal(const PolicyCollective& what, std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("the policy started {}, {}", describe(what), why)};
}

}  // namespace

PolicyHost::PolicyHost(const TrainingProfile& profile, Policy& policy)
    : policy_(policy),
      space_(profile),
      needs_(policy.needs()),
      gradient_ps_(profile.layers.size(), -1),
      forward_done_(profile.layers.size(), false),
      iteration_(profile.layers.size(), 0) {
  const ByteRange all{0, space_.total_bytes()};
  taken_.add(all);
  reduced_.add(all);
  if (!needs_.frees_parameters) {
    gathering_.add(all);
    available_.add(all);
  }
}

void PolicyHost::tell(EventKind kind, int64_t now_ps, int32_t index) {
  policy_.observe({kind, now_ps, index});
  has_news_ = true;
}

void PolicyHost::gradient_ready(int32_t layer, int64_t now_ps) {
  const ByteRange range = space_.layer(layer);
  PLEACH_CHECK(available_.covers(range), "a gradient of parameters that were not there");
  for (ByteSet* set :
       {&taken_, &reduced_, &gathering_, &available_, &backward_gathering_, &backward_available_}) {
    set->remove(range);
  }
  gradient_ps_[at(layer)] = now_ps;
  forward_done_[at(layer)] = false;
  ++iteration_[at(layer)];
  tell_of(layer, EventKind::kGradientReady, now_ps);
}

void PolicyHost::forward_needed(int32_t layer, int64_t now_ps) {
  tell_of(layer, EventKind::kForwardNeeded, now_ps);
}

void PolicyHost::backward_needed(int32_t layer, int64_t now_ps) {
  tell_of(layer, EventKind::kBackwardNeeded, now_ps);
}

// Layers without tensors do not concern a policy.
void PolicyHost::tell_of(int32_t layer, EventKind kind, int64_t now_ps) {
  if (space_.layer(layer).size() > 0) {
    tell(kind, now_ps, layer);
  }
}

void PolicyHost::forward_finished(int32_t layer) {
  forward_done_[at(layer)] = true;
}

void PolicyHost::wake(int64_t now_ps) {
  wake_ps_ = -1;
  tell(EventKind::kWake, now_ps, 0);
}

void PolicyHost::finish(int64_t now_ps) {
  PLEACH_CHECK(busy_, "nothing is on the wire");
  HostedCollective& done = log_.back();
  done.finished_ps = now_ps;
  busy_ = false;
  const ByteRange range = done.what.range;
  if (done.what.kind != CollectiveKind::kAllGather) {
    reduced_.add(range);
    if (done.what.kind == CollectiveKind::kAllReduce) {
      gathering_.add(range);
      available_.add(range);
    }
  } else if (available_.covers(range)) {
    backward_available_.add(range);
  } else {
    available_.add(range);
  }
  tell(EventKind::kCollectiveFinished, now_ps, done.number);
}

Status PolicyHost::check(const PolicyCollective& what) const {
  const ByteRange range = what.range;
  if (range.begin < 0 || range.size() <= 0 || range.end > space_.total_bytes()) {
    return illegal(what, fmt::format("of a model of {} bytes", space_.total_bytes()));
  }
  if (what.overhead_ps < 0) {
    return illegal(what, fmt::format("with an overhead of {} ps", what.overhead_ps));
  }
  switch (what.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter: {
      if (taken_.meets(range)) {
        return illegal(what, "some of which is reduced already, or not computed yet");
      }
      for (int32_t layer = space_.layer_of(range.begin);
           layer < space_.layer_count() && space_.layer(layer).begin < range.end; ++layer) {
        if (space_.layer(layer).size() > 0 && gradient_ps_[at(layer)] < 0) {
          return illegal(what, fmt::format("but layer {} has no gradients yet", layer));
        }
      }
      return ok();
    }
    case CollectiveKind::kAllGather: {
      if (!reduced_.covers(range)) {
        return illegal(what, "some of which is not reduced yet");
      }
      if (!gathering_.meets(range)) {
        return ok();
      }
      if (!needs_.frees_parameters || backward_gathering_.meets(range) ||
          !available_.covers(range)) {
        return illegal(what, "some of which is gathered already");
      }
      for (int32_t layer = space_.layer_of(range.begin);
           layer < space_.layer_count() && space_.layer(layer).begin < range.end; ++layer) {
        if (space_.layer(layer).size() > 0 && !forward_done_[at(layer)]) {
          return illegal(what, fmt::format("but layer {} still holds them for forward", layer));
        }
      }
      return ok();
    }
    default:
      return illegal(what, "which no policy may");
  }
}

// When everything that the collective needs was there.
int64_t PolicyHost::ready_time(const PolicyCollective& what) const {
  int64_t ready_ps = 0;
  if (what.kind != CollectiveKind::kAllGather) {
    for (int32_t layer = space_.layer_of(what.range.begin);
         layer < space_.layer_count() && space_.layer(layer).begin < what.range.end; ++layer) {
      ready_ps = std::max(ready_ps, gradient_ps_[at(layer)]);
    }
    return ready_ps;
  }
  int64_t missing = what.range.size();
  for (auto one = log_.rbegin(); one != log_.rend() && missing > 0; ++one) {
    const int64_t shared = std::min(one->what.range.end, what.range.end) -
                           std::max(one->what.range.begin, what.range.begin);
    if (one->what.kind != CollectiveKind::kAllGather && shared > 0) {
      ready_ps = std::max(ready_ps, one->finished_ps);
      missing -= shared;
    }
  }
  return ready_ps;
}

Status PolicyHost::settle(int64_t now_ps) {
  if (!has_news_) {
    return ok();
  }
  has_news_ = false;
  PolicyActions actions;
  policy_.decide(now_ps, actions);
  for (const PolicyCollective& what : actions.start) {
    PLEACH_TRY(check(what));
    if (what.kind != CollectiveKind::kAllGather) {
      taken_.add(what.range);
    } else if (gathering_.meets(what.range)) {
      backward_gathering_.add(what.range);
    } else {
      gathering_.add(what.range);
    }
    HostedCollective& hosted = waiting_.emplace_back();
    hosted.what = what;
    hosted.number = next_number_++;
    hosted.iteration = iteration_[at(space_.layer_of(what.range.begin))] - 1;
    hosted.ready_ps = ready_time(what);
    hosted.issued_ps = now_ps;
  }
  if (actions.wake_ps >= 0) {
    wake_ps_ = std::max(actions.wake_ps, now_ps);
  }
  return ok();
}

const HostedCollective* PolicyHost::next(int64_t now_ps) {
  if (busy_ || waiting_.empty()) {
    return nullptr;
  }
  log_.push_back(waiting_.front());
  waiting_.pop_front();
  log_.back().started_ps = now_ps;
  busy_ = true;
  return &log_.back();
}

bool PolicyHost::may_run_forward(int32_t layer) const {
  return available_.covers(needs_.step_at_once ? ByteRange{0, space_.total_bytes()}
                                               : space_.layer(layer));
}

bool PolicyHost::may_run_backward(int32_t layer) const {
  return !needs_.frees_parameters || backward_available_.covers(space_.layer(layer));
}

void PolicyHost::charge_stall(int64_t from_ps, int64_t to_ps) {
  for (auto one = log_.rbegin(); one != log_.rend(); ++one) {
    const bool on_wire = busy_ && one == log_.rbegin();
    const int64_t end_ps = on_wire ? to_ps : std::min(to_ps, one->finished_ps);
    one->exposed_ps += std::max<int64_t>(0, end_ps - std::max(from_ps, one->started_ps));
    if (one->started_ps <= from_ps) {
      return;
    }
  }
}

void PolicyHost::forget_before(int32_t iteration) {
  auto first = log_.begin();
  while (first != log_.end() && first->iteration < iteration &&
         !(busy_ && std::next(first) == log_.end())) {
    ++first;
  }
  log_.erase(log_.begin(), first);
}

}  // namespace pleach
