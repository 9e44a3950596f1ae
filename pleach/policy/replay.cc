#include "pleach/policy/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {

Result<std::unique_ptr<PlanReplay>> PlanReplay::create(const TrainingProfile& profile,
                                                       std::span<const AtomCollective> plan,
                                                       const ReplayOptions& options) {
  PLEACH_TRY(check_profile(profile));
  const ParameterSpace space(profile);
  PLEACH_TRY(check_plan(space, plan));
  if (options.channel_width < 1) {
    return invalid(fmt::format("a channel for {} collectives", options.channel_width));
  }
  return std::unique_ptr<PlanReplay>(new PlanReplay(profile, plan_of_bytes(space, plan), options));
}

PlanReplay::PlanReplay(const TrainingProfile& profile, Plan plan, const ReplayOptions& options)
    : policy_(profile, std::move(plan), {.step_at_once = options.step_at_once}),
      host_(profile, policy_, options.channel_width),
      has_gradients_(profile.layers.size()) {}

Status PlanReplay::gradient_ready(int32_t layer, int64_t now_ps) {
  if (layer < 0 || layer >= count_of(has_gradients_)) {
    return invalid(fmt::format("gradients of layer {}, of {}", layer, has_gradients_.size()));
  }
  if (host_.is_in_place()) {  // the iteration before is over
    has_gradients_.assign(has_gradients_.size(), false);
    has_updated_ = false;
  }
  if (has_gradients_[at(layer)]) {
    return invalid(fmt::format(
        "layer {} has its gradients already, and not all parameters are in place yet", layer));
  }
  has_gradients_[at(layer)] = true;
  host_.gradient_ready(layer, now_ps);
  return ok();
}

std::span<const int32_t> PlanReplay::next(int64_t now_ps) {
  const auto starting = host_.next(now_ps);
  PLEACH_CHECK(starting.has_value(), "a checked plan breaks synchronous training");
  starting_.clear();
  for (const HostedCollective& one : *starting) {
    starting_.push_back(one.number);
  }
  return starting_;
}

Status PlanReplay::land(int32_t number, int64_t now_ps) {
  const HostedCollective* one = host_.find(number);
  if (one == nullptr || one->finished_ps >= 0) {
    return invalid(fmt::format("collective {} is not on the wire", number));
  }
  host_.land(number, now_ps);
  return ok();
}

Status PlanReplay::update(int32_t number, int64_t now_ps) {
  const HostedCollective* one = host_.find(number);
  if (one == nullptr || one->finished_ps < 0) {
    return invalid(fmt::format("collective {} has not landed", number));
  }
  if (!reduces(one->what.kind) || one->updated_ps >= 0) {
    return invalid(fmt::format("collective {}, {}, has nothing to update with", number,
                               to_text(one->what.kind)));
  }
  has_updated_ = true;
  host_.update(number, now_ps);
  return ok();
}

Status PlanReplay::repeat() {
  if (!host_.is_idle()) {
    return invalid("an iteration cannot be repeated while it has something on the wire");
  }
  if (host_.is_in_place()) {
    return ok();  // nothing has come
  }
  if (has_updated_) {
    return invalid("an iteration that has updated parameters cannot be repeated");
  }
  policy_.repeat();
  host_.repeat();
  has_gradients_.assign(has_gradients_.size(), false);
  return ok();
}

Result<int32_t> PlanReplay::index_of(int32_t number) const {
  const HostedCollective* one = host_.find(number);
  if (one == nullptr) {
    return invalid(fmt::format("collective {} has not started, or is forgotten", number));
  }
  const auto plan = policy_.plan();
  return static_cast<int32_t>(std::ranges::find(plan, one->what) - plan.begin());
}

}  // namespace pleach
