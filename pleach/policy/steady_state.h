// SteadyState: detects that training repeats itself.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"

namespace pleach {

// Notes what starts when, iteration by iteration. Iterations repeat with period p when the last 2p
// agree in everything noted, relative to their starts, and each began with the policy settled.
class SteadyState {
 public:
  // Something starts, or will end, at `time_ps`; `what` tells it from other things.
  void note(int64_t time_ps, int64_t what);
  // The iteration ends; the next one starts now.
  void end_iteration(int64_t time_ps, bool settled);

  bool found() const { return found_; }
  int32_t period() const { return period_; }
  int32_t iterations() const { return count_of(ends_ps_); }
  // Iterations at the end to average over: one period, when found; else half of all (≥ 1).
  int32_t mean_over() const;
  int64_t iteration_ps() const;  // their mean
  // Where iteration `index` ended.
  int64_t end_ps(int32_t index) const { return ends_ps_[at(index)]; }

 private:
  std::vector<uint64_t> prints_;  // by iteration: a hash of what was noted
  std::vector<int64_t> ends_ps_;
  Fingerprint print_;
  int64_t start_ps_ = 0;
  int32_t settled_from_ = -1;  // first iteration that began settled
  int32_t period_ = 1;
  bool found_ = false;
};

}  // namespace pleach
