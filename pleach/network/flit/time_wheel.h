// TimeWheel: what is due in one of the next cycles, by cycle.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

// Buckets of a power of two of cycles. Their memory is used again: none is asked for once the
// fullest cycles have been seen.   cost  O(1) per event
template <typename Event>
class TimeWheel {
 public:
  explicit TimeWheel(int64_t longest_delay = 1) {
    std::size_t size = 2;
    while (size <= at(longest_delay)) {
      size *= 2;
    }
    buckets_.resize(size);
  }

  // `cycle` is later than that of the last take(), by at most the longest delay.
  void add(int64_t cycle, const Event& event) { bucket(cycle).push_back(event); }
  // Calls visit(event) for what is due in `cycle`, in the order in which it was added. visit may
  // add what is due later.
  template <typename Visit>
  void take(int64_t cycle, Visit visit) {
    std::vector<Event>& due = bucket(cycle);
    for (const Event& event : due) {
      visit(event);
    }
    due.clear();
  }
  const std::vector<Event>& due(int64_t cycle) const {
    return buckets_[at(cycle) & (buckets_.size() - 1)];
  }
  // The first cycle from `cycle` on in which something is due, or `none`, when that is sooner or
  // nothing is.   cost  O(longest delay)
  int64_t next(int64_t cycle, int64_t none) const {
    for (std::size_t ahead = 0; ahead < buckets_.size() && cycle < none; ++ahead, ++cycle) {
      if (!due(cycle).empty()) {
        return cycle;
      }
    }
    return none;
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& bucket : buckets_) {
      for (const Event& event : bucket) {
        visit(event);
      }
    }
  }

 private:
  std::vector<Event>& bucket(int64_t cycle) { return buckets_[at(cycle) & (buckets_.size() - 1)]; }

  std::vector<std::vector<Event>> buckets_;
};

}  // namespace pleach
