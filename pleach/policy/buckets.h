// Buckets: how policies fuse tensors and cut them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/policy/profile.h"

namespace pleach {

// All of these cut at atoms alone: layers, blocks and tensors end at the nearest ends of atoms.

// Runs of layers that are one block, as far as they own parameters, in forward order.
std::vector<ByteRange> blocks_of(const TrainingProfile& profile);

// Fuses parts, or layers, in forward order: a group closes before the one with which it would come
// to `threshold_bytes` or more, so that one above the threshold stands alone; 0: every one does.
//   returns  groups in forward order, which together are all parts
//   source   Zhang et al., DeAR, ICDCS 2023: tensor fusion as in its public code
std::vector<ByteRange> fuse_by_threshold(std::span<const ByteRange> parts, int64_t threshold_bytes);
std::vector<ByteRange> fuse_by_threshold(const ParameterSpace& space, int64_t threshold_bytes);

// Fuses tensors from the last to the first: a bucket closes once it has its cap's bytes or more.
//   first_cap_bytes  of the first bucket; `cap_bytes` of all others
//   returns          buckets in backward order
//   source           Li et al., PyTorch Distributed, VLDB 2020, sec. 3.2
std::vector<ByteRange> fuse_backward(const ParameterSpace& space, int64_t first_cap_bytes,
                                     int64_t cap_bytes);

// Cuts `range` into pieces of `piece_bytes` > 0 and a last one of the rest, at the nearest atoms,
// in forward order.
std::vector<ByteRange> cut_range(const ParameterSpace& space, ByteRange range, int64_t piece_bytes);

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

// The option `bucket` of policies that fuse layers into groups (fuse_by_threshold).
OptionDescriptor group_size_option();
// The options `first_bucket` and `bucket` of policies that fuse tensors as DDP (fuse_backward).
std::vector<OptionDescriptor> backward_size_options();
std::vector<ByteRange> fuse_backward(const ParameterSpace& space, const Options& options);

// A size or time option that must exceed 0. Errors: kInvalidArgument naming policy and option.
Result<int64_t> positive_option(const Options& options, const std::string& name,
                                std::string_view policy);

}  // namespace pleach
