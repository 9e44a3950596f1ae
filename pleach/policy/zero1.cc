// ZeRO-1: every rank updates its shard; all parameters are gathered before the next forward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/builtin.h"
#include "pleach/policy/dear_schedule.h"

namespace pleach {
namespace {

// The collectives of DeAR, of which none of the second half overlaps with anything.
class Zero1 : public Policy {
 public:
  Zero1(const ParameterSpace& space, int64_t bucket_bytes)
      : schedule_(space, fuse_by_threshold(space, bucket_bytes)) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override { schedule_.observe(event); }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override { schedule_.decide(actions); }

 private:
  DearSchedule schedule_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  return std::unique_ptr<Policy>(
      std::make_unique<Zero1>(ParameterSpace(setting.profile), options.number("bucket")));
}

}  // namespace

const PolicyDescriptor kZero1Policy = {
    .name = "zero1",
    .summary = "reduce_scatter in backward, then an all_gather of everything before forward",
    .source = "Rajbhandari et al., ZeRO, SC 2020, sec. 5.1",
    .options = {{.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "25MiB",
                 .summary = "bytes at which a group of layers closes; 0: every layer by itself"}},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .create = create,
};

}  // namespace pleach
