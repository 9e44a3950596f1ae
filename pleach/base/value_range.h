// FROM:TO:FACTOR: the values of a sweep, each a factor greater than the one before.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// How ranges of one kind of value are written.
struct ValueRangeForm {
  Result<int64_t> (*parse_value)(std::string_view text) = nullptr;  // FROM and TO
  bool may_be_single = false;  // FROM alone is a range of one value
  bool whole_factor = false;   // FACTOR is a whole number from 2 on; else any from 1.01 on
  bool ends_at_last = false;   // TO is a value whether or not the factor leads to it
  // What is said of a range, after it, that starts below 1 or goes down.
  std::string_view order = " goes down";
};

// "1KiB:64KiB:4" → 1024, 4096, 16384, 65536: FROM · FACTOR^k up to TO, rounded to whole numbers.
// FACTOR is 2 where it is left out. Beyond 2^53 values are as exact as a double.
//   errors  kInvalidArgument: other than two or three parts, those of parse_value, a FACTOR out of
//           its range (1e6 at most, 2^30 where it is whole), FROM below 1, TO below FROM
Result<std::vector<int64_t>> parse_value_range(std::string_view text, const ValueRangeForm& form);

}  // namespace pleach
