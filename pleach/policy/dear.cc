// DeAR: reduce_scatter during backward, all_gather during the next forward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/builtin.h"
#include "pleach/policy/dear_schedule.h"

namespace pleach {
namespace {

class Dear : public Policy {
 public:
  Dear(const ParameterSpace& space, int64_t bucket_bytes)
      : schedule_(space, fuse_by_threshold(space, bucket_bytes)) {}
  void observe(const PolicyEvent& event) override { schedule_.observe(event); }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override { schedule_.decide(actions); }

 private:
  DearSchedule schedule_;
};

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  return std::unique_ptr<Policy>(
      std::make_unique<Dear>(ParameterSpace(setting.profile), options.number("bucket")));
}

}  // namespace

const PolicyDescriptor kDearPolicy = {
    .name = "dear",
    .summary = "reduce_scatter in backward, all_gather in the next forward, by groups of layers",
    .source = "Zhang et al., DeAR, ICDCS 2023; tensor fusion as in its public code",
    .options = {{.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "25MiB",
                 .summary = "bytes at which a group of layers closes; 0: every layer by itself"}},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .create = create,
};

}  // namespace pleach
