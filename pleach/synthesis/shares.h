// Shares of a buffer whose parts travel at the same time, each in a way of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"

namespace pleach {

// "11+13": whole numbers, of parts, divided by what all have in common; 0 leaves a part out.
//   errors  kInvalidArgument: no such list, or all 0; kInfeasible: another number than `part_count`
Result<std::vector<int64_t>> parse_shares(const std::string& text, int32_t part_count);

// The shares, in thousandths, of the parts that are done together the soonest.
//   loads    of each link, what the whole buffer would take on it in each part's way, ≥ 0; every
//            part takes something of some link
//   returns  those s with sum 1 whose largest Σ loads[link][part]·s[part] is the least
//   cost     one linear program of a variable per part, a bound per link
//   source   the least value of a matrix game, by the simplex method (Dantzig 1951; Bland 1977)
std::vector<int64_t> best_shares(std::span<const std::vector<double>> loads);

}  // namespace pleach
