// PlanReplay: one rank's part in real training: which collective of a settled plan it starts when.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/host.h"
#include "pleach/policy/plan_policy.h"
#include "pleach/policy/settle.h"

namespace pleach {

// Collectives on the wire at once in real training, so that it does not idle between two.
inline constexpr int32_t kTrainingChannelWidth = 2;

struct ReplayOptions {
  int32_t channel_width = kTrainingChannelWidth;  // ≥ 1
  bool step_at_once = false;                      // as the settled plan's
};

// A rank starts the plan's collectives in its order, iteration after iteration, each as soon as
// this rank can: a reduction when it has the gradients of all its atoms; an all_gather or a
// broadcast when it has updated its share of each of them; and never more at once than the channel
// is wide. Ranks need not agree on anything else: they start the same collectives in the same
// order, and none ever waits for a later one (docs/architecture.md, "Training").
//
// Facts are of this rank alone. Every fact is checked; one that cannot be is an error of
// kInvalidArgument that changes nothing. Times never go back. Not thread safe.
class PlanReplay {
 public:
  // `plan` as check_plan wants it.   errors  those of check_profile and check_plan;
  // kInvalidArgument: a channel without width
  static Result<std::unique_ptr<PlanReplay>> create(const TrainingProfile& profile,
                                                    std::span<const AtomCollective> plan,
                                                    const ReplayOptions& options = {});
  PlanReplay(const PlanReplay&) = delete;
  PlanReplay& operator=(const PlanReplay&) = delete;

  // This rank has all of the layer's gradients; each layer once an iteration, layers without
  // tensors too, or never.   errors  it has them already, or its parameters are not in place
  Status gradient_ready(int32_t layer, int64_t now_ps);
  // The collectives that start now, in order, by their numbers, which count from 0 over the whole
  // training. Ask after every other fact. Valid until the next call.
  std::span<const int32_t> next(int64_t now_ps);
  // A collective has finished on this rank and leaves the wire. What it distributed is in place.
  Status land(int32_t number, int64_t now_ps);
  // What a reduction, which has landed, brought is used up: this rank has updated its share of the
  // atoms, so that others may get it; after an all_reduce all of them, which are then in place.
  Status update(int32_t number, int64_t now_ps);
  // Whether the layer's atoms are in place (with step_at_once: all atoms).
  bool may_run_forward(int32_t layer) const { return host_.may_run_forward(layer); }
  // Drops the iteration whose gradients have come: they will come again, its reductions run again
  // from the first, and the parameters are in place as before it.   errors  something is on the
  // wire, or the iteration has updated or distributed something
  Status repeat();
  // Computation stands still for want of parameters from now on, and goes on again.
  void stand_still(int64_t now_ps) { host_.stand_still(now_ps); }
  void go_on(int64_t now_ps) { host_.go_on(now_ps); }

  // Which collective of the plan has the number, by its index; of those started and not forgotten.
  Result<int32_t> index_of(int32_t number) const;
  // Every collective started so far, as PolicyHost's; forget_before drops finished ones of older
  // iterations.
  std::span<const HostedCollective> log() const { return host_.log(); }
  void forget_before(int32_t iteration) { host_.forget_before(iteration); }

 private:
  PlanReplay(const TrainingProfile& profile, Plan plan, const ReplayOptions& options);

  PlanPolicy policy_;
  PolicyHost host_;
  std::vector<bool> has_gradients_;  // by layer, in this iteration
  bool has_updated_ = false;         // some of its reductions
  std::vector<int32_t> starting_;
};

}  // namespace pleach
