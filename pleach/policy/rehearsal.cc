#include "pleach/policy/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/units.h"
#include "pleach/policy/group_driver.h"
#include "pleach/policy/steady_state.h"

namespace pleach {
namespace {

// All ranks, which are alike: computation of one layer at a time, and collectives beside it.
class Rehearser {
 public:
  Rehearser(const TrainingProfile& profile, const CostModel& costs, Policy& policy,
            const RehearsalOptions& options)
      : profile_(profile),
        costs_(costs),
        options_(options),
        driver_(profile, policy, {.channel_width = options.channel_width}) {}

  // Runs to the end of the iteration's backward. Errors: as rehearse.
  Status run_iteration() {
    driver_.forget_before(steady_.iterations() - 1);
    step_ = 0;
    while (step_ < 2 * layers()) {
      PLEACH_TRY(run_instant());
      if (step_ < 2 * layers()) {
        PLEACH_TRY(move_time());
      }
    }
    for (const auto& [end_ps, number] : carried_) {
      steady_.note(end_ps, 0);
    }
    return ok();
  }
  void end_iteration(bool settled) { steady_.end_iteration(now_ps_, settled); }
  const SteadyState& steady() const { return steady_; }
  std::span<const HostedCollective> log() const { return driver_.host().log(); }

 private:
  int32_t layers() const { return count_of(profile_.layers); }
  // The step's place: forward of layer 0.., then backward of the last layer..
  LayerGate gate() const {
    const bool is_forward = step_ < layers();
    return {.is_forward = is_forward,
            .layer = is_forward ? step_ : 2 * layers() - 1 - step_,
            .iteration = steady_.iterations()};
  }

  // Everything that happens at now_ps_, in rounds: facts and gates, as long as there are any, then
  // what starts.
  Status run_instant() {
    for (bool moved = true; moved;) {
      check_interruption();
      while (finish_due() || begin_computing()) {
      }
      moved = false;
      PLEACH_ASSIGN(starting, driver_.next(now_ps_));
      for (const HostedCollective& one : starting) {
        start(one);
        moved = true;
      }
    }
    return ok();
  }

  // Ends what is due now. Returns whether anything was.
  bool finish_due() {
    bool any = false;
    if (compute_end_ps_ == now_ps_) {
      const LayerGate done = gate();
      done.is_forward ? driver_.forward_finished(done.layer)
                      : driver_.gradient_ready(done.layer, now_ps_);
      compute_end_ps_ = kNever;
      ++step_;
      any = true;
    }
    while (!carried_.empty() && carried_.begin()->first == now_ps_) {
      driver_.finish(carried_.begin()->second, now_ps_);
      carried_.erase(carried_.begin());
      any = true;
    }
    return any;
  }

  bool begin_computing() {
    if (compute_end_ps_ != kNever || step_ == 2 * layers()) {
      return false;
    }
    if (!has_come_) {
      driver_.come(gate(), now_ps_);
      has_come_ = true;
    }
    if (!driver_.pass(gate(), now_ps_)) {
      return false;
    }
    has_come_ = false;
    steady_.note(now_ps_, step_);
    const PolicyLayer& layer = profile_.layers[at(gate().layer)];
    compute_end_ps_ = now_ps_ + (gate().is_forward ? layer.forward_ps : layer.backward_ps);
    return true;
  }

  void start(const HostedCollective& one) {
    const int64_t cost_ps = costs_.time_ps(one.what.kind, one.what.range.size());
    carried_.emplace(add_times_ps(now_ps_, cost_ps), one.number);
    steady_.note(now_ps_, one.what.range.begin);
  }

  Status move_time() {
    int64_t next_ps =
        std::min(compute_end_ps_, carried_.empty() ? kNever : carried_.begin()->first);
    if (driver_.wake_ps() >= 0) {
      next_ps = std::min(next_ps, driver_.wake_ps());
    }
    if (next_ps == kNever) {
      return invalid(
          fmt::format("the policy stops: layer {} waits for its parameters before {}, "
                      "and nothing is on the wire",
                      gate().layer, gate().is_forward ? "forward" : "backward"));
    }
    if (next_ps > kLongestPs) {
      return invalid(
          fmt::format("{} iterations take longer than {}", options_.most_iterations, kLongestText));
    }
    now_ps_ = next_ps;
    return ok();
  }

  static constexpr int64_t kNever = INT64_MAX;
  const TrainingProfile& profile_;
  const CostModel& costs_;
  const RehearsalOptions& options_;
  GroupDriver driver_;
  SteadyState steady_;
  int64_t now_ps_ = 0;
  int32_t step_ = 0;
  bool has_come_ = false;  // to the step's gate
  int64_t compute_end_ps_ = kNever;
  std::set<std::pair<int64_t, int32_t>> carried_;  // on the wire: end, number
};

}  // namespace

Result<Rehearsal> rehearse(const TrainingProfile& profile, const CostModel& costs, Policy& policy,
                           const RehearsalOptions& options) {
  PLEACH_TRY(check_profile(profile));
  if (options.most_iterations < 1 || options.channel_width < 1) {
    return invalid(fmt::format("a rehearsal of {} iterations on a channel for {} collectives",
                               options.most_iterations, options.channel_width));
  }
  Rehearser rehearser(profile, costs, policy, options);
  const SteadyState& steady = rehearser.steady();
  while (steady.iterations() < options.most_iterations && !steady.found()) {
    PLEACH_TRY(rehearser.run_iteration());
    rehearser.end_iteration(policy.settled());
  }
  Rehearsal result;
  for (const PolicyLayer& layer : profile.layers) {
    result.compute_ps += layer.forward_ps + layer.backward_ps;
  }
  result.iterations = steady.iterations();
  result.iteration_ps = steady.iteration_ps();
  result.steady = steady.found();
  result.period = steady.period();
  if (options.keep_log) {
    result.log.assign(rehearser.log().begin(), rehearser.log().end());
  }
  return result;
}

}  // namespace pleach
