// DearRules: DeAR's rules for a list of groups that may change between iterations.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/policy/buckets.h"
#include "pleach/policy/policy.h"

namespace pleach {

// A reduce_scatter per group as soon as its gradients are there, last group first; when all of an
// iteration have finished, an all_gather per group, first group first. A policy forwards its events
// and decisions. Not thread safe.
//   source  Zhang et al., DeAR, ICDCS 2023: decoupled all_reduce
class DearRules {
 public:
  // `groups` in forward order; disjoint, with bytes, together the whole model.
  DearRules(const ParameterSpace& space, const std::vector<ByteRange>& groups);

  // Takes other groups from the next iteration's gradients on: at once if all of this one's
  // all_gathers are decided and no gradient has come since; else as soon as they are.
  void regroup(std::vector<ByteRange> groups);

  void observe(const PolicyEvent& event);
  void decide(PolicyActions& actions);

 private:
  void adopt_next_groups();

  ParameterSpace space_;
  BucketQueue queue_;  // of groups, in backward order
  std::optional<std::vector<ByteRange>> next_groups_;
  int32_t reducing_ = 0;        // reduce_scatters that have not finished
  bool is_collecting_ = false;  // gradients have come whose all_gathers are not decided
  bool is_gather_due_ = false;  // every reduce_scatter has been decided, no all_gather has
};

// A policy that only has these rules, over groups fused by size.
class DearPolicy : public Policy {
 public:
  DearPolicy(const ParameterSpace& space, int64_t bucket_bytes, PolicyNeeds needs)
      : schedule_(space, fuse_by_threshold(space, bucket_bytes)), needs_(std::move(needs)) {}
  PolicyNeeds needs() const override { return needs_; }
  void observe(const PolicyEvent& event) override { schedule_.observe(event); }
  void decide(int64_t /*now_ps*/, PolicyActions& actions) override { schedule_.decide(actions); }

 private:
  DearRules schedule_;
  PolicyNeeds needs_;
};

// The option `bucket` of policies that fuse layers into groups.
OptionDescriptor group_size_option();

}  // namespace pleach
