#include "pleach/policy/dear_rules.h"

#include <utility>

namespace pleach {
namespace {

std::vector<ByteRange> reversed(const std::vector<ByteRange>& groups) {
  return {groups.rbegin(), groups.rend()};
}

}  // namespace

DearRules::DearRules(const ParameterSpace& space, const std::vector<ByteRange>& groups)
    : space_(space), queue_(space, reversed(groups)) {}

void DearRules::regroup(std::vector<ByteRange> groups) {
  next_groups_ = std::move(groups);
  adopt_next_groups();
}

void DearRules::adopt_next_groups() {
  if (next_groups_.has_value() && !is_collecting_) {
    queue_ = BucketQueue(space_, reversed(*next_groups_));
    next_groups_.reset();
  }
}

void DearRules::observe(const PolicyEvent& event) {
  if (event.kind == EventKind::kGradientReady && space_.layer(event.index).size() > 0) {
    is_collecting_ = true;
    queue_.gradient_ready(event.index);
  } else if (event.kind == EventKind::kCollectiveFinished && reducing_ > 0) {
    // No all_gather is under way while there are reduce_scatters: forward has waited for them all.
    --reducing_;
  }
}

void DearRules::decide(PolicyActions& actions) {
  while (const std::optional<ByteRange> group = queue_.take()) {
    actions.start.push_back({CollectiveKind::kReduceScatter, *group});
    ++reducing_;
    is_gather_due_ = queue_.is_fresh();
  }
  if (is_gather_due_ && reducing_ == 0) {
    for (const ByteRange& group : reversed(queue_.buckets())) {
      actions.start.push_back({CollectiveKind::kAllGather, group});
    }
    is_gather_due_ = false;
    is_collecting_ = false;
    adopt_next_groups();
  }
}

OptionDescriptor group_size_option() {
  return {.name = "bucket",
          .kind = OptionDescriptor::Kind::kSize,
          .default_value = "25MiB",
          .summary = "bytes at which a group of layers closes; 0: every layer by itself"};
}

}  // namespace pleach
