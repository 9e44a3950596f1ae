// What policies are told of a trace's times: when layers are needed and when gradients come, where
// gradients travel in no time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pleach/policy/policy.h"
#include "pleach/policy/ready_ranges.h"

namespace pleach {

// Reduces every layer by itself, but those that share an atom together, and notes when it could.
class Timekeeper : public Policy {
 public:
  explicit Timekeeper(const TrainingProfile& profile);
  void observe(const PolicyEvent& event) override;
  void decide(int64_t now_ps, PolicyActions& actions) override;

  // `profile` with times that put forward and backward of its layers where they were in the last
  // iteration that is complete. A worker that computes the layers one after another, without
  // micro-batches or communication of other kinds, gets its own times back. What else a worker does
  // (micro-batches, waiting for stages) is between the last layer's forward and its gradients, or
  // before the first layer's forward.
  TrainingProfile told(const TrainingProfile& profile) const;

 private:
  ReadyRanges layers_;
  std::vector<ByteRange> ready_;                 // whose gradients have come, not started
  std::vector<std::vector<int64_t>> needed_ps_;  // by layer, iteration
  std::vector<std::vector<int64_t>> ready_ps_;
};

}  // namespace pleach
