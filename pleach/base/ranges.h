// Sets of numbers, as people write them: "0,1,4-7".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// Numbers of 0 to `last`, none twice, in the order in which they are written. The error names
// `what` they are (a "rank"), the piece and the range.
Result<std::vector<int32_t>> parse_ranges(std::string_view text, std::string_view what,
                                          int32_t last);
// The same backwards, of ascending numbers; "" for none.
std::string ranges_text(std::span<const int32_t> numbers);

}  // namespace pleach
