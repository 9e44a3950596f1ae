#include "pleach/policy/rehearsal.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/policy/steady_state.h"

namespace pleach {
namespace {

class Worker {
 public:
  Worker(const TrainingProfile& profile, const CostModel& costs, PolicyHost& host,
         int32_t most_iterations)
      : profile_(profile),
        costs_(costs),
        host_(host),
        layers_(host.space().layer_count()),
        most_iterations_(most_iterations) {}

  // Runs to the end of the iteration's backward. Errors: as rehearse.
  Status run_iteration(SteadyState& steady) {
    step_ = 0;
    told_ = false;
    while (step_ < 2 * layers_) {
      PLEACH_TRY(run_instant(steady));
      if (step_ < 2 * layers_) {
        PLEACH_TRY(move_time());
      }
    }
    steady.note(channel_end_ps_.value_or(now_ps_), 0);
    return ok();
  }
  int64_t now_ps() const { return now_ps_; }

 private:
  bool is_forward() const { return step_ < layers_; }
  int32_t layer() const { return is_forward() ? step_ : 2 * layers_ - 1 - step_; }

  // Everything that happens at now_ps_, in rounds: facts, decisions, what starts.
  Status run_instant(SteadyState& steady) {
    for (bool moved = true; moved;) {
      moved = finish_due();
      moved = begin_computing(steady) || moved;
      PLEACH_TRY(host_.settle(now_ps_));
      if (const HostedCollective* next = host_.next(now_ps_)) {
        channel_end_ps_ = add_times_ps(
            now_ps_, add_times_ps(next->what.overhead_ps,
                                  costs_.time_ps(next->what.kind, next->what.range.size())));
        steady.note(now_ps_, next->what.range.begin);
        moved = true;
      }
    }
    return ok();
  }

  // Ends what is due now. Returns whether anything was.
  bool finish_due() {
    bool any = false;
    if (compute_end_ps_ == now_ps_) {
      compute_end_ps_.reset();
      if (is_forward()) {
        host_.forward_finished(layer());
      } else {
        host_.gradient_ready(layer(), now_ps_);
      }
      ++step_;
      told_ = false;
      stall_from_ps_ = now_ps_;
      any = true;
    }
    if (channel_end_ps_ == now_ps_) {
      channel_end_ps_.reset();
      host_.finish(now_ps_);
      any = true;
    }
    if (host_.wake_ps() == now_ps_) {
      host_.wake(now_ps_);
      any = true;
    }
    return any;
  }

  bool begin_computing(SteadyState& steady) {
    if (compute_end_ps_.has_value() || step_ == 2 * layers_) {
      return false;
    }
    const bool is_news = !told_;
    if (is_news) {
      is_forward() ? host_.forward_needed(layer(), now_ps_)
                   : host_.backward_needed(layer(), now_ps_);
      told_ = true;
    }
    if (!(is_forward() ? host_.may_run_forward(layer()) : host_.may_run_backward(layer()))) {
      return is_news;
    }
    if (stall_from_ps_ < now_ps_) {
      host_.charge_stall(stall_from_ps_, now_ps_);
    }
    steady.note(now_ps_, step_);
    const PolicyLayer& one = profile_.layers[at(layer())];
    compute_end_ps_ = now_ps_ + (is_forward() ? one.forward_ps : one.backward_ps);
    return true;
  }

  Status move_time() {
    std::optional<int64_t> next_ps;
    for (const std::optional<int64_t>& candidate :
         {compute_end_ps_, channel_end_ps_,
          host_.wake_ps() >= 0 ? std::optional(host_.wake_ps()) : std::nullopt}) {
      if (candidate.has_value() && (!next_ps.has_value() || *candidate < *next_ps)) {
        next_ps = candidate;
      }
    }
    if (!next_ps.has_value()) {
      return invalid(
          fmt::format("the policy stops: layer {} waits for its parameters before {}, "
                      "and nothing is on the wire",
                      layer(), is_forward() ? "forward" : "backward"));
    }
    now_ps_ = *next_ps;
    if (now_ps_ > kLongestPs) {
      return invalid(
          fmt::format("{} iterations take longer than {}", most_iterations_, kLongestText));
    }
    return ok();
  }

  const TrainingProfile& profile_;
  const CostModel& costs_;
  PolicyHost& host_;
  const int32_t layers_;
  const int32_t most_iterations_;
  int32_t step_ = 0;  // forward of layer 0.., then backward of the last layer..
  bool told_ = false;
  int64_t now_ps_ = 0;
  int64_t stall_from_ps_ = 0;
  std::optional<int64_t> compute_end_ps_;
  std::optional<int64_t> channel_end_ps_;
};

}  // namespace

Result<Rehearsal> rehearse(const TrainingProfile& profile, const CostModel& costs, Policy& policy,
                           const RehearsalOptions& options) {
  PLEACH_TRY(check_profile(profile));
  PolicyHost host(profile, policy);
  Worker worker(profile, costs, host, options.most_iterations);
  SteadyState steady;
  Rehearsal result;
  for (const PolicyLayer& layer : profile.layers) {
    result.compute_ps += layer.forward_ps + layer.backward_ps;
  }
  for (int32_t iteration = 0; iteration < options.most_iterations; ++iteration) {
    host.forget_before(iteration - 1);
    PLEACH_TRY(worker.run_iteration(steady));
    steady.end_iteration(worker.now_ps(), policy.settled());
    if (steady.found()) {
      break;
    }
  }
  result.iterations = steady.iterations();
  result.iteration_ps = steady.iteration_ps();
  result.steady = steady.found();
  result.period = steady.period();
  if (options.keep_log) {
    result.log.assign(host.log().begin(), host.log().end());
  }
  return result;
}

}  // namespace pleach
