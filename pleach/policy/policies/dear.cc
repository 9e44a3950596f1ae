// DeAR: reductions during backward, distribution during the next forward.
#include <memory>

#include "pleach/policy/buckets.h"
#include "pleach/policy/plan_policy.h"

namespace pleach {
namespace {

bool has_owners(const Options& options) {
  return options.text("halves") == "reduce_broadcast";
}

Result<std::unique_ptr<Policy>> create(const PolicySetting& setting, const Options& options) {
  const std::vector<ByteRange> groups =
      fuse_by_threshold(ParameterSpace(setting.profile), options.number("bucket"));
  return std::unique_ptr<Policy>(std::make_unique<PlanPolicy>(
      setting.profile, has_owners(options) ? owned_plan(groups) : decoupled_plan(groups)));
}

std::vector<CollectiveKind> halves(const Options& options) {
  if (has_owners(options)) {
    return {CollectiveKind::kReduce, CollectiveKind::kBroadcast};
  }
  return {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather};
}

}  // namespace

extern const PolicyDescriptor kDearPolicy = {
    .name = "dear",
    .summary = "reduce_scatter in backward, all_gather in the next forward, by groups of layers",
    .source = "Zhang et al., DeAR, ICDCS 2023; tensor fusion as in its public code",
    .options = {group_size_option(),
                {.name = "halves",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "scatter_gather",
                 .summary = "reduce_scatter and all_gather, or a reduce to owners of whole tensors "
                            "and a broadcast of what they make of them",
                 .allowed = {"scatter_gather", "reduce_broadcast"}}},
    .collectives = {CollectiveKind::kReduceScatter, CollectiveKind::kAllGather},
    .collectives_of = halves,
    .create = create,
};

}  // namespace pleach
