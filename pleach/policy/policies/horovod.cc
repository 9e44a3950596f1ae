// Horovod: a background thread wakes in cycles and fuses the tensors that it finds.
#include <memory>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"

namespace pleach {
namespace {

class Horovod : public Policy {
 public:
  struct Setting {
    int64_t cycle_ps = 0;  // > 0
    int64_t fusion_bytes = 0;
    int64_t negotiation_ps = 0;
  };
  Horovod(const ParameterSpace& space, const Setting& setting)
      : setting_(setting), tensors_of_(at(space.layer_count())) {
    const std::vector<ByteRange>& tensors = space.tensors();
    for (auto tensor = tensors.rbegin(); tensor != tensors.rend(); ++tensor) {
      tensors_of_[at(space.layer_of(tensor->begin))].push_back(*tensor);
    }
  }
  PolicyNeeds needs() const override { return {.step_at_once = true}; }

  void observe(const PolicyEvent& event) override {
    if (event.kind == EventKind::kGradientReady) {
      const auto& tensors = tensors_of_[at(event.index)];
      ready_.insert(ready_.end(), tensors.begin(), tensors.end());
    }
  }

  // Cycles are counted from time 0, whatever training does: the thread knows nothing of iterations.
  void decide(int64_t now_ps, PolicyActions& actions) override {
    if (ready_.empty()) {
      return;
    }
    if (const int64_t since_ps = now_ps % setting_.cycle_ps; since_ps > 0) {
      actions.wake_ps = add_times_ps(now_ps - since_ps, setting_.cycle_ps);
      return;
    }
    int64_t overhead_ps = setting_.negotiation_ps;  // once for all that a cycle finds
    for (const ByteRange& bucket : fuse_ready()) {
      actions.start.push_back({CollectiveKind::kAllReduce, bucket, overhead_ps});
      overhead_ps = 0;
    }
    ready_.clear();
  }

 private:
  // In the order in which they came; neighbours share a buffer up to its size.
  std::vector<ByteRange> fuse_ready() const {
    std::vector<ByteRange> buckets;
    for (const ByteRange& tensor : ready_) {
      if (!buckets.empty() && buckets.back().begin == tensor.end &&
          buckets.back().size() + tensor.size() <= setting_.fusion_bytes) {
        buckets.back().begin = tensor.begin;
      } else {
        buckets.push_back(tensor);
      }
    }
    return buckets;
  }

  Setting setting_;
  std::vector<std::vector<ByteRange>> tensors_of_;  // by layer, in backward order
  std::vector<ByteRange> ready_;
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
    .source = "Sergeev and Del Balso, Horovod, 2018, sec. 5",
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
                 .summary = "time per cycle in which ranks agree on what is ready"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
