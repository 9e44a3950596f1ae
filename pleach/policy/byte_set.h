// ByteSet: which bytes of the parameters are in some state.
#pragma once

#include <cstdint>
#include <map>

#include "pleach/policy/profile.h"

namespace pleach {

// Bytes, as disjoint ranges that do not touch. Empty ranges change nothing, are covered by every
// set, and meet none.
//   cost     O(log ranges), and as much for every range that add or remove swallows
//   threads  not safe
class ByteSet {
 public:
  void add(ByteRange range);     // may overlap what is there
  void remove(ByteRange range);  // need not be there
  bool covers(ByteRange range) const;
  bool meets(ByteRange range) const;

 private:
  std::map<int64_t, int64_t> end_of_;  // begin → end
};

}  // namespace pleach
