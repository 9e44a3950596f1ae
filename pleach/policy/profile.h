// What a policy knows of the training that it schedules: layers, bytes, times and costs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/index.h"
#include "pleach/base/result.h"

namespace pleach {

// A layer is a module that owns parameters (or computes a noticeable time without owning any).
struct PolicyLayer {
  std::vector<int64_t> tensor_bytes;  // in forward order, each > 0; may be empty
  int64_t forward_ps = 0;             // of all micro-batches
  int64_t backward_ps = 0;
  int64_t weight_gradient_ps = 0;  // part of backward_ps that no earlier layer waits for
  int64_t exchange_bytes = 0;      // all_to_all before and again after the layer; 0: none
  bool continues_block = false;    // of the layer before: a transformer block, say
};

// One data-parallel group's share of a model, layers in forward order.
struct TrainingProfile {
  std::vector<PolicyLayer> layers;
  int32_t rank_count = 1;  // of the group
  // Sizes of the atoms, which collectives move as a whole: end to end they are the flat space. An
  // atom may hold tensors of several layers. Empty: those of cut_atoms, where every tensor may be
  // cut at an element of 8 bytes for each rank.
  std::vector<int64_t> atom_bytes = {};
};

// Errors: kInvalidArgument naming the layer: no layers, a negative time, a tensor without bytes,
// weight_gradient_ps > backward_ps, times that add up to over kLongestPs, bytes that overflow; or
// the atom: no bytes, or not those of the tensors together.
Status check_profile(const TrainingProfile& profile);

// [begin, end) of the flat parameter space: all tensors end to end in forward order.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

// Where layers and atoms lie in the flat parameter space. Immutable; thread safe.
class ParameterSpace {
 public:
  // `profile` has passed check_profile.
  explicit ParameterSpace(const TrainingProfile& profile);
  int32_t layer_count() const { return count_of(layer_begin_) - 1; }
  int64_t total_bytes() const { return layer_begin_.back(); }
  ByteRange layer(int32_t layer) const {
    return {layer_begin_[at(layer)], layer_begin_[at(layer) + 1]};
  }
  // Every tensor, in forward order, as far as atoms keep them apart: at_atoms of them.
  const std::vector<ByteRange>& tensors() const { return tensors_; }
  // The layer that owns a byte; 0 ≤ byte < total_bytes().
  int32_t layer_of(int64_t byte) const;

  int32_t atom_count() const { return count_of(cuts_) - 1; }
  // Of atoms [first, end).
  ByteRange atoms(int32_t first, int32_t end) const { return {cuts_[at(first)], cuts_[at(end)]}; }
  // The atom that begins at the byte; atom_count() at the end of the last one; −1: none does.
  int32_t atom_at(int64_t byte) const;
  // The end of an atom that is nearest to the byte; of two, the lower one.
  int64_t nearest_cut(int64_t byte) const;
  // Ranges whose ends have moved to the nearest ends of atoms, without those that are empty then.
  // Of ranges that follow one another no byte is lost, and none comes twice.
  std::vector<ByteRange> at_atoms(std::span<const ByteRange> ranges) const;

 private:
  std::vector<int64_t> layer_begin_;
  std::vector<int64_t> cuts_;  // where atoms begin, and the last one ends
  std::vector<ByteRange> tensors_;
};

// How long a collective of the group takes, alone on the wire.
class CostModel {
 public:
  virtual ~CostModel() = default;
  // Whether the fabric's algorithm does this collective at all.
  virtual bool has(CollectiveKind kind) const = 0;
  // `size_bytes` is the whole buffer of one rank, > 0; has(kind). 0 for one rank. Thread safe.
  virtual int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const = 0;
  // Sizes, each > 0, between which time_ps is concave in the size: linear, say. The least time per
  // byte is at one of them or at the largest size. Empty: concave throughout, as a startup and a
  // price per byte are.
  virtual std::vector<int64_t> breakpoints(CollectiveKind /*kind*/) const { return {}; }
};

}  // namespace pleach
