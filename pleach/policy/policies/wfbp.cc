// Wait-free back-propagation: every tensor travels by itself as soon as it is there.
#include <memory>
#include <vector>

#include "pleach/policy/policy.h"
#include "pleach/policy/ready_ranges.h"

namespace pleach {
namespace {

class Wfbp : public Policy {
 public:
  explicit Wfbp(const ParameterSpace& space) : tensors_(space, space.tensors()) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      for (const std::size_t tensor : tensors_.gradient_ready(event.index)) {
        ready_.push_back(tensors_.range(tensor));
      }
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    for (const ByteRange& tensor : ready_) {
      actions.start.push_back({CollectiveKind::kAllReduce, tensor});
    }
    ready_.clear();
  }

 private:
  ReadyRanges tensors_;
  std::vector<ByteRange> ready_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& /*options*/) {
  return std::unique_ptr<Policy>(std::make_unique<Wfbp>(ParameterSpace(setting.profile)));
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
