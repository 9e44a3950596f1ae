// ClosedChannels: those that were open, and to which something may still be on its way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>

namespace pleach {

// The last that have been closed. A message that nobody has received may come after its channel is
// gone; a channel that never was is another matter.
class ClosedChannels {
 public:
  void add(uint64_t channel) {
    numbers_.push_back(channel);
    if (numbers_.size() > kMost) {
      numbers_.pop_front();
    }
  }
  bool contains(uint64_t channel) const {
    return std::ranges::find(numbers_, channel) != numbers_.end();
  }

 private:
  static constexpr std::size_t kMost = 1024;
  std::deque<uint64_t> numbers_;
};

}  // namespace pleach
