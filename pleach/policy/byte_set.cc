#include "pleach/policy/byte_set.h"

#include <algorithm>
#include <iterator>

namespace pleach {

void ByteSet::add(ByteRange range) {
  if (range.size() <= 0) {
    return;
  }
  auto next = end_of_.lower_bound(range.begin);
  if (next != end_of_.begin() && std::prev(next)->second >= range.begin) {
    --next;
    range.begin = next->first;
  }
  while (next != end_of_.end() && next->first <= range.end) {
    range.end = std::max(range.end, next->second);
    next = end_of_.erase(next);
  }
  end_of_[range.begin] = range.end;
}

void ByteSet::remove(ByteRange range) {
  if (range.size() <= 0) {
    return;
  }
  auto next = end_of_.lower_bound(range.begin);
  if (next != end_of_.begin() && std::prev(next)->second > range.begin) {
    --next;
  }
  while (next != end_of_.end() && next->first < range.end) {
    const auto [begin, end] = *next;
    next = end_of_.erase(next);
    if (begin < range.begin) {
      end_of_[begin] = range.begin;
    }
    if (end > range.end) {
      end_of_[range.end] = end;
    }
  }
}

bool ByteSet::covers(ByteRange range) const {
  if (range.size() <= 0) {
    return true;
  }
  auto next = end_of_.upper_bound(range.begin);
  return next != end_of_.begin() && std::prev(next)->second >= range.end;
}

bool ByteSet::meets(ByteRange range) const {
  if (range.size() <= 0) {
    return false;
  }
  auto next = end_of_.lower_bound(range.end);
  return next != end_of_.begin() && std::prev(next)->second > range.begin;
}

}  // namespace pleach
