// ByteScheduler: partitions of tensors by priority, within a window of credit.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/priority.h"

namespace pleach {
namespace {

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  PLEACH_ASSIGN(partition_bytes, positive_option(options, "partition", "byte_scheduler"));
  return std::unique_ptr<Policy>(std::make_unique<PriorityPolicy>(
      ParameterSpace(setting.profile),
      PriorityPolicy::Setting{.piece_bytes = partition_bytes,
                              .window_bytes = options.number("credit"),
                              .negotiation_ps = options.number("negotiation")}));
}

}  // namespace

extern const PolicyDescriptor kByteSchedulerPolicy = {
    .name = "byte_scheduler",
    .summary = "all_reduce of partitions, nearest to the input first, within a window of credit",
    .source = "Peng et al., ByteScheduler, SOSP 2019, sec. 4",
    .options = {{.name = "partition",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "4MB",
                 .summary = "bytes of a partition, to the nearest atoms"},
                {.name = "credit",
                 .kind = OptionDescriptor::Kind::kSize,
                 .default_value = "16MB",
                 .summary = "bytes that may be on their way at once; at least one partition is"},
                {.name = "negotiation",
                 .kind = OptionDescriptor::Kind::kTime,
                 .default_value = "0ns",
                 .summary =
                     "time that ranks take to agree on a partition, in which it holds credit"}},
    .collectives = {CollectiveKind::kAllReduce},
    .create = create,
};

}  // namespace pleach
