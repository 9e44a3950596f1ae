// Sorting that can be interrupted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "pleach/base/interruption.h"

namespace pleach {

// Sorts as std::sort does, and looks for an interruption meanwhile.
//   cost  that of std::sort; above a quarter of a million values also memory for half of them
template <typename Value, typename Less = std::less<>>
void sort_interruptibly(std::vector<Value>& values, Less less = {}) {
  constexpr std::size_t kBlock = std::size_t{1} << 18;
  constexpr std::size_t kSteps = 1024;  // between two looks
  const std::size_t count = values.size();
  const auto at_place = [&](std::size_t place) {
    return values.begin() + static_cast<std::ptrdiff_t>(std::min(place, count));
  };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    std::sort(at_place(begin), at_place(begin + kBlock), less);
    check_interruption_now();
  }
  std::vector<Value> left;
  for (std::size_t width = kBlock; width < count; width *= 2) {
    for (std::size_t begin = 0; begin + width < count; begin += 2 * width) {
      left.assign(std::move_iterator(at_place(begin)), std::move_iterator(at_place(begin + width)));
      auto target = at_place(begin);
      auto first = left.begin();
      auto second = at_place(begin + width);
      const auto end = at_place(begin + 2 * width);
      for (std::size_t step = 1; first != left.end() && second != end; ++step) {
        *target++ = less(*second, *first) ? std::move(*second++) : std::move(*first++);
        if (step % kSteps == 0) {
          check_interruption();
        }
      }
      std::move(first, left.end(), target);
    }
  }
}

}  // namespace pleach
