// ParameterState: where every byte of a group's parameters stands, and the proof that what a policy
// starts is synchronous training.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/policy/byte_set.h"
#include "pleach/policy/policy.h"

namespace pleach {

// In every iteration a byte's gradient is complete, it is reduced, then gathered or broadcast (an
// all_reduce does both), and forward may use it. Where parameters are freed, forward drops them,
// and they are gathered once more for backward. Not thread safe.
class ParameterState {
 public:
  // Before the first iteration all parameters are in place, unless they are freed after use.
  ParameterState(const TrainingProfile& profile, bool frees_parameters);

  const ParameterSpace& space() const { return space_; }

  // The layer's gradients are complete on every rank: what it held is out of date.
  void gradient_ready(int32_t layer, int64_t now_ps);
  // All ranks have done with the layer's parameters in forward.
  void forward_finished(int32_t layer);

  // A collective is decided. Errors: kInvalidArgument: it breaks synchronous training, or it is no
  // collective of these parameters (names it, its bytes and what is missing).
  Status start(const PolicyCollective& what);
  // It has finished; of a reduction, what it brought is used up, too.
  void finish(const PolicyCollective& what);
  // The iteration's gradients are dropped: all parameters are in place again, as before them. None
  // of its collectives but reductions may have been decided, and none has finished. Of parameters
  // that are not freed.
  void repeat();

  // Whether forward, or backward, may use the bytes.
  bool has_for_forward(ByteRange range) const { return gather_.done.covers(range); }
  bool has_for_backward(ByteRange range) const {
    return !frees_parameters_ || regather_.done.covers(range);
  }
  // When the last gradients of the bytes, of those that have come, were complete; −1: none have.
  int64_t gradients_ps(ByteRange range) const;
  // Whose gradients the first of the bytes carries now, from 0; −1: none have come yet.
  int32_t iteration_of(ByteRange range) const {
    return layers_[at(space_.layer_of(range.begin))].gradients - 1;
  }

 private:
  Status check_range(const PolicyCollective& what) const;
  // Bytes that collectives of one purpose are decided for, and those for which they have finished.
  struct Phase {
    ByteSet begun;
    ByteSet done;
  };
  struct Layer {
    int64_t gradients_ps = -1;
    int32_t gradients = 0;  // iterations whose gradients have come
    bool forward_done = false;
  };
  Status check_reduction(const PolicyCollective& what) const;
  Status check_gather(const PolicyCollective& what) const;
  // The first layer with some of the bytes for which it holds; −1: for none.
  template <typename Predicate>
  int32_t find_layer(ByteRange range, Predicate holds) const;

  const ParameterSpace space_;
  const bool frees_parameters_;
  Phase reduction_;
  ByteSet owned_;   // reduced to owners
  Phase gather_;    // for forward
  Phase regather_;  // for backward
  std::vector<Layer> layers_;
};

}  // namespace pleach
