// Horovod: a background thread wakes in cycles and fuses the tensors that it finds.
#include <algorithm>
#include <memory>
#include <vector>

#include "pleach/base/units.h"
#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/ready_ranges.h"

namespace pleach {
namespace {

// The thread sleeps for what is left of the cycle time, takes what is ready, negotiates, and hands
// over to be sent what all ranks have, for which it does not wait. It negotiates in cycles that
// find nothing, too, so that cycles follow one another at one pace, from time 0, whatever training
// does.
class Horovod : public Policy {
 public:
  struct Setting {
    int64_t cycle_ps = 0;  // > 0
    int64_t fusion_bytes = 0;
    int64_t negotiation_ps = 0;
  };
  Horovod(const ParameterSpace& space, const Setting& setting)
      : setting_(setting),
        period_ps_(std::min(std::max(setting.cycle_ps, setting.negotiation_ps), kLongestPs + 1)),
        tensors_(space, {space.tensors().rbegin(), space.tensors().rend()}),
        last_cycle_ps_(-period_ps_) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }

  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      for (const std::size_t tensor : tensors_.gradient_ready(event.index)) {
        ready_.push_back(tensors_.range(tensor));
      }
    }
  }

  void decide(int64_t now_ps, PolicyActions& actions) override {
    if (!found_.empty() && now_ps >= agreed_ps_) {
      start_found(actions);
    }
    if (!ready_.empty() && tick_ps_ < 0) {
      tick_ps_ = next_cycle_ps(now_ps);
    }
    if (!ready_.empty() && now_ps >= tick_ps_) {  // it may have been woken late
      last_cycle_ps_ = now_ps;
      tick_ps_ = -1;
      found_.swap(ready_);  // the last cycle's have been started: negotiation is part of a cycle
      agreed_ps_ = add_times_ps(now_ps, setting_.negotiation_ps);
      if (agreed_ps_ == now_ps) {
        start_found(actions);
      }
    }
    if (!found_.empty()) {
      actions.wake_ps = agreed_ps_;
    } else if (!ready_.empty()) {
      actions.wake_ps = tick_ps_;
    }
  }

 private:
  // The first cycle after the last one that found something, from now on.
  int64_t next_cycle_ps(int64_t now_ps) const {
    const int64_t since_ps = std::max<int64_t>(1, now_ps - last_cycle_ps_);
    return last_cycle_ps_ + ((since_ps - 1) / period_ps_ + 1) * period_ps_;
  }

  // In the order in which they came; neighbours share a buffer up to its size.
  void start_found(PolicyActions& actions) {
    std::vector<ByteRange> buckets;
    for (const ByteRange& tensor : found_) {
      if (!buckets.empty() && buckets.back().begin == tensor.end &&
          buckets.back().size() + tensor.size() <= setting_.fusion_bytes) {
        buckets.back().begin = tensor.begin;
      } else {
        buckets.push_back(tensor);
      }
    }
    for (const ByteRange& bucket : buckets) {
      actions.start.push_back({CollectiveKind::kAllReduce, bucket});
    }
    found_.clear();
  }

  const Setting setting_;
  const int64_t period_ps_;
  ReadyRanges tensors_;           // in backward order
  std::vector<ByteRange> ready_;  // that no cycle has found
  std::vector<ByteRange> found_;  // that ranks negotiate on, until
  int64_t agreed_ps_ = 0;         // this
  int64_t last_cycle_ps_;         // that found something; one before all time
  int64_t tick_ps_ = -1;          // the cycle that will; −1: none is awaited
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  PLEACH_ASSIGN(cycle_ps, positive_option(options, "cycle", "horovod"));
  return std::unique_ptr<Policy>(
      std::make_unique<Horovod>(ParameterSpace(setting.profile),
                                Horovod::Setting{.cycle_ps = cycle_ps,
                                                 .fusion_bytes = options.number("fusion"),
                                                 .negotiation_ps = options.number("negotiation")}));
}

}  // namespace

extern const PolicyDescriptor kHorovodPolicy = {
    .name = "horovod",
    .summary = "all_reduce of whatever is ready at each tick of a clock, fused",
    .source =
        "Sergeev and Del Balso, Horovod, 2018, sec. 5; the background loop of its public code",
    .options = {{.name = "cycle",
                 .kind = OptionDescriptor::Kind::kTime,
                 .default_value = "1ms",
                 .summary = "time between looks for ready tensors"},
                {.name = "fusion",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "128MiB",
                 .summary = "most bytes of tensors fused; a larger tensor travels alone"},
                {.name = "negotiation",
                 .kind = OptionDescriptor::Kind::kTime,
                 .default_value = "0ns",
                 .summary =
                     "time in which ranks agree on what a cycle has found; a cycle takes as long"}},
    .collectives = {CollectiveKind::kAllReduce},
    .settles = false,
    .create = create,
};

}  // namespace pleach
