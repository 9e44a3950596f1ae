// PacketPool: things that come and go, by numbers that are used again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {

template <typename T>
class PacketPool {
 public:
  int32_t add(T item) {
    if (unused_.empty()) {
      items_.push_back(std::move(item));
      return count_of(items_) - 1;
    }
    const int32_t number = unused_.back();
    unused_.pop_back();
    items_[at(number)] = std::move(item);
    return number;
  }
  T take(int32_t number) {
    unused_.push_back(number);
    return std::move(items_[at(number)]);
  }
  T& operator[](int32_t number) { return items_[at(number)]; }

 private:
  std::vector<T> items_;
  std::vector<int32_t> unused_;
};

}  // namespace pleach
