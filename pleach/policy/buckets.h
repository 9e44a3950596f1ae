// Buckets: how policies fuse tensors, cut them, and wait for their gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/policy/policy.h"
#include "pleach/policy/profile.h"

namespace pleach {

// Fuses layers in forward order: a group closes before the layer with which it would come to
// `threshold_bytes` or more, so that a layer above the threshold stands alone; 0: every layer does.
//   returns  groups in forward order, which together are the whole model
//   source   Zhang et al., DeAR, ICDCS 2023: tensor fusion as in its public code
std::vector<ByteRange> fuse_by_threshold(const ParameterSpace& space, int64_t threshold_bytes);

// Fuses tensors from the last to the first: a bucket closes once it has its cap's bytes or more.
//   first_cap_bytes  of the first bucket; `cap_bytes` of all others
//   returns          buckets in backward order
//   source           Li et al., PyTorch Distributed, VLDB 2020, sec. 3.2
std::vector<ByteRange> fuse_backward(const ParameterSpace& space, int64_t first_cap_bytes,
                                     int64_t cap_bytes);

// Cuts `range` into pieces of `piece_bytes` > 0 and a last one of the rest, in forward order.
std::vector<ByteRange> cut_range(ByteRange range, int64_t piece_bytes);

// A tensor, and when its gradient is there, counted from the start of backward.
struct TimedTensor {
  ByteRange range;
  int64_t ready_ps = 0;
};
// Tensors in backward order, as `profile` predicts them.
std::vector<TimedTensor> backward_order(const TrainingProfile& profile);

// Merges neighbours greedily: a tensor joins the group before it if it is ready before that group's
// all_reduce would end, and either before it would start or within a startup (the time of the
// smallest message) of that.
//   tensors  in backward order   returns  groups in backward order
//   source   Shi et al., MG-WFBP, INFOCOM 2019, sec. IV
std::vector<ByteRange> merge_greedily(std::span<const TimedTensor> tensors, const CostModel& costs);
// Merges neighbours so that the last all_reduce ends first: f[j] = min_i max(f[i], ready[j]) +
// cost(i..j).   cost  O(tensors²)
std::vector<ByteRange> merge_optimally(std::span<const TimedTensor> tensors,
                                       const CostModel& costs);

// Buckets that wait for their gradients, in a fixed order of launch. Starts over by itself after
// the last. Not thread safe.
class BucketQueue {
 public:
  // `buckets` are disjoint and have bytes; a layer may lie in several.
  BucketQueue(const ParameterSpace& space, std::vector<ByteRange> buckets);
  void gradient_ready(int32_t layer);
  // The next bucket, if all its gradients are there.
  std::optional<ByteRange> take();
  // Whether no bucket of this iteration has been taken yet.
  bool is_fresh() const { return next_ == 0; }
  const std::vector<ByteRange>& buckets() const { return buckets_; }

 private:
  struct Share {
    std::size_t bucket = 0;
    int64_t bytes = 0;
  };
  std::vector<ByteRange> buckets_;
  std::vector<std::vector<Share>> shares_of_;  // by layer
  std::vector<int64_t> missing_;               // by bucket: bytes without gradients
  std::size_t next_ = 0;
};

// Launches an all_reduce per bucket in a fixed order; all parameters step together.
class BucketPolicy : public Policy {
 public:
  BucketPolicy(const ParameterSpace& space, std::vector<ByteRange> buckets)
      : queue_(space, std::move(buckets)) {}
  PolicyNeeds needs() const override { return {.step_at_once = true}; }
  void observe(const PolicyEvent& event) override;
  void decide(int64_t now_ps, PolicyActions& actions) override;

 private:
  BucketQueue queue_;
};

// A size or time option that must exceed 0. Errors: kInvalidArgument naming policy and option.
Result<int64_t> positive_option(const Options& options, const std::string& name,
                                std::string_view policy);

}  // namespace pleach
