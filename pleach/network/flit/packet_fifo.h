// PacketFifo: first in, first out, without allocation in the steady state.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace pleach {

template <typename T>
class PacketFifo {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  // From the front.
  T& operator[](std::size_t place) { return items_[head_ + place]; }
  const T& operator[](std::size_t place) const { return items_[head_ + place]; }
  T& front() { return items_[head_]; }
  T& back() { return items_.back(); }
  void push(T item) { items_.push_back(std::move(item)); }
  T pop() {
    T item = std::move(items_[head_++]);
    if (head_ == items_.size()) {
      clear();
    } else if (head_ >= kWaste && head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    return item;
  }
  void clear() {
    items_.clear();
    head_ = 0;
  }

 private:
  static constexpr std::size_t kWaste = 32;
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace pleach
