// Sequential: nothing travels before backward has ended, nothing computes before all has arrived.
#include <memory>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_queue.h"

namespace pleach {
namespace {

class Sequential : public Policy {
 public:
  Sequential(const ParameterSpace& space, int64_t bucket_bytes)
      : space_(space),
        model_(space, all_reduce_plan(pieces_of({0, space.total_bytes()}, 0))),
        bucket_bytes_(bucket_bytes) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      model_.gradient_ready(event.index);
    }
  }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override {
    if (const std::optional<PolicyCollective> model = model_.take()) {
      for (const ByteRange& piece : pieces_of(model->range, bucket_bytes_)) {
        actions.start.push_back({CollectiveKind::kAllReduce, piece});
      }
    }
  }

 private:
  std::vector<ByteRange> pieces_of(ByteRange range, int64_t bucket_bytes) const {
    return cut_range(space_, range, bucket_bytes > 0 ? bucket_bytes : range.size());
  }

  const ParameterSpace space_;
  PlanQueue model_;  // as one
  int64_t bucket_bytes_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  return std::unique_ptr<Policy>(
      std::make_unique<Sequential>(ParameterSpace(setting.profile), options.number("bucket")));
}

}  // namespace

extern const PolicyDescriptor kSequentialPolicy = {
    .name = "sequential",
    .summary = "one all_reduce when the last gradient is complete: no overlap",
    .source = "synchronous SGD without overlap, as in Shi et al., MG-WFBP, INFOCOM 2019",
    .options = {{.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "0",
                 .summary = "bytes of one all_reduce, to the nearest atoms; 0: the whole model"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
