// PlanQueue: the collectives of a plan, iteration after iteration, each as soon as it may start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pleach/policy/plan.h"

namespace pleach {

// Hands out a plan's collectives strictly in its order: a reduction when the gradients of all its
// bytes are there, an all_gather or a broadcast when all reductions of its bytes have finished.
// Starts over by itself after the last. Not thread safe.
class PlanQueue {
 public:
  // `plan`: reductions of the whole model, or of nothing; each byte gathered after it is reduced.
  //   cost  O(layers · collectives + collectives²)
  PlanQueue(const ParameterSpace& space, Plan plan);

  // Each layer once an iteration.
  void gradient_ready(int32_t layer);
  // The collective that take() gave as its `number`-th, from 0, has finished. Of plans without
  // all_gathers nobody needs to say so.
  void finish(int32_t number);
  // The next collective, if it may start.
  std::optional<PolicyCollective> take();

  // The iteration's gradients are dropped: they come again, and its collectives are taken again
  // from the first. None but reductions may have been taken.
  void repeat();
  // Takes another plan from the next iteration's gradients on: at once if none of this one's have
  // come, else after its last collective.
  void replace(Plan plan);

  // Whether no collective of this iteration has been taken yet.
  bool is_fresh() const { return next_ == 0; }
  const Plan& plan() const { return plan_; }

 private:
  // Bytes that a collective waits for.
  struct Share {
    std::size_t collective = 0;
    int64_t bytes = 0;
  };
  void set(Plan plan);
  void begin_iteration();

  const ParameterSpace space_;
  Plan plan_;
  std::vector<std::vector<Share>> shares_of_layer_;      // of its gradients, in reductions
  std::vector<std::vector<Share>> shares_of_reduction_;  // by collective, in all_gathers
  std::vector<int64_t> missing_bytes_;                   // by collective
  std::size_t next_ = 0;                                 // to be taken
  int32_t first_number_ = 0;                             // of this iteration's first collective
  bool is_collecting_ = false;                           // this iteration's gradients have come
  std::optional<Plan> next_plan_;
};

}  // namespace pleach
