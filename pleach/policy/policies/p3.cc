// P3: slices of tensors, the most urgent first, one at a time.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/priority.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  PLEACH_ASSIGN(slice_bytes, positive_option(options, "slice", "p3"));
  return std::unique_ptr<Policy>(std::make_unique<PriorityPolicy>(
      ParameterSpace(setting.profile), PriorityPolicy::Setting{.piece_bytes = slice_bytes}));
}

}  // namespace

extern const PolicyDescriptor kP3Policy = {
    .name = "p3",
    .summary = "all_reduce of slices, nearest to the input first, one at a time",
    .source =
        "Jayarajan et al., Priority-based Parameter Propagation, MLSys 2019, sec. 4; with "
        "all_reduce in place of its parameter server",
    .options = {{.name = "slice",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "200kB",
                 .summary =
                     "bytes of a slice, to the nearest atoms; 50,000 parameters of 4 bytes"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
