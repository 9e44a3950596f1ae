// ReadySends: the sends that a connection may start, by priority.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "pleach/network/lowered_schedule.h"

namespace pleach {

// The smallest is kept beside the others: most connections have one at a time, and then nothing
// else is touched.
class ReadySends {
 public:
  bool empty() const { return !has_top_; }
  // Not when empty.
  const Send& top() const { return top_; }

  void push(Send send) {
    if (!has_top_) {
      has_top_ = true;
      top_ = send;
      return;
    }
    if (send < top_) {
      std::swap(send, top_);
    }
    others_.push_back(send);
    std::push_heap(others_.begin(), others_.end(), std::greater<>());
  }

  // Not when empty. Returns the smallest.
  Send pop() {
    const Send send = top_;
    if (others_.empty()) {
      has_top_ = false;
    } else {
      std::pop_heap(others_.begin(), others_.end(), std::greater<>());
      top_ = others_.back();
      others_.pop_back();
    }
    return send;
  }

 private:
  Send top_;
  bool has_top_ = false;
  std::vector<Send> others_;  // a heap, smallest on top
};

}  // namespace pleach
