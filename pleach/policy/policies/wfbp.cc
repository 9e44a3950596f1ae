// Wait-free back-propagation: every tensor travels by itself as soon as it is there.
#include <memory>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/policy/policy.h"

namespace pleach {
namespace {

class Wfbp : public Policy {
 public:
  explicit Wfbp(const TrainingProfile& profile)
      : space_(profile), tensors_of_(profile.layers.size()) {
    for (const ByteRange& tensor : space_.tensors()) {
      tensors_of_[at(space_.layer_of(tensor.begin))].push_back(tensor);
    }
  }
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      ready_.push_back(event.index);
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    for (const int32_t layer : ready_) {
      for (const ByteRange& tensor : tensors_of_[at(layer)]) {
        actions.start.push_back({CollectiveKind::kAllReduce, tensor});
      }
    }
    ready_.clear();
  }

 private:
  ParameterSpace space_;
  std::vector<std::vector<ByteRange>> tensors_of_;  // by layer
  std::vector<int32_t> ready_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& /*options*/) {
  return std::unique_ptr<Policy>(std::make_unique<Wfbp>(setting.profile));
}

}  // namespace

extern const PolicyDescriptor kWfbpPolicy = {
    .name = "wfbp",
    .summary = "one all_reduce per tensor, as gradients come; all parameters step together",
    .source = "Zhang et al., Poseidon, USENIX ATC 2017, sec. 3",
    .options = {},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
