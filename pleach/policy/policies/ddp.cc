// DDP: all_reduce of buckets of tensors in reverse order, during backward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const ParameterSpace space(setting.profile);
  return std::unique_ptr<Policy>(std::make_unique<BucketPolicy>(
      space, fuse_backward(space, options.number("first_bucket"), options.number("bucket"))));
}

}  // namespace

extern const PolicyDescriptor kDdpPolicy = {
    .name = "ddp",
    .summary = "all_reduce of buckets of tensors, last tensor first, strictly in order",
    .source = "Li et al., PyTorch Distributed, VLDB 2020, sec. 3.2",
    .options = {{.name = "first_bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "1MiB",
                 .summary = "bytes at which the first bucket closes"},
                {.name = "bucket",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "25MiB",
                 .summary = "bytes at which every other bucket closes"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
