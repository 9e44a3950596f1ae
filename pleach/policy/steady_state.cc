#include "pleach/policy/steady_state.h"

#include <algorithm>

namespace pleach {
namespace {

constexpr int32_t kLongestPeriod = 16;

}  // namespace

void SteadyState::note(int64_t time_ps, int64_t what) {
  print_.add(time_ps - start_ps_);
  print_.add(what);
}

void SteadyState::end_iteration(int64_t time_ps, bool settled) {
  note(time_ps, -1);
  prints_.push_back(print_.value());
  ends_ps_.push_back(time_ps);
  print_ = Fingerprint();
  start_ps_ = time_ps;
  const int32_t count = iterations();
  if (!settled) {
    settled_from_ = -1;
  } else if (settled_from_ < 0) {
    settled_from_ = count;
    return;
  }
  if (settled_from_ < 0) {
    return;
  }
  for (int32_t period = 1; period <= kLongestPeriod && 2 * period <= count - settled_from_;
       ++period) {
    const auto end = prints_.end();
    const auto last = end - period;
    if (std::equal(last, end, last - period)) {
      found_ = true;
      period_ = period;
      return;
    }
  }
}

int32_t SteadyState::mean_over() const {
  return found_ ? period_ : std::max(1, iterations() / 2);
}

int64_t SteadyState::iteration_ps() const {
  const int32_t count = iterations();
  const int32_t span = mean_over();
  const int64_t from_ps = span < count ? end_ps(count - 1 - span) : 0;
  return (end_ps(count - 1) - from_ps) / span;
}

}  // namespace pleach
