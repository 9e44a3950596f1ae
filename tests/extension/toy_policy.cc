// A policy that sends everything when half of the layers have their gradients, and again at the
// end.
#include <memory>

#include "pleach/base/index.h"
#include "pleach/policy/policy.h"

namespace pleach {
namespace {

class ToyPolicy final : public Policy {
 public:
  explicit ToyPolicy(const TrainingProfile& profile) : space_(profile) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      ready_ = event.index;
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    const int32_t half = space_.layer_count() / 2;
    if (ready_ == half) {
      start({space_.layer(half).begin, space_.total_bytes()}, actions);
    } else if (ready_ == 0) {
      start({0, space_.layer(half).begin}, actions);
    }
    ready_ = -1;
  }

 private:
  static void start(const ByteRange& range, PolicyActions& actions) {
    if (range.size() > 0) {
      actions.start.push_back({CollectiveKind::kAllReduce, range});
    }
  }

  const ParameterSpace space_;
  int32_t ready_ = -1;  // the last layer whose gradients have come
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& /*options*/) {
  return std::unique_ptr<Policy>(std::make_unique<ToyPolicy>(setting.profile));
}

}  // namespace

extern const PolicyDescriptor kToyPolicy = {
    .name = "toy",
    .summary = "one all_reduce for each half of the model",
    .source = {},
    .options = {},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
