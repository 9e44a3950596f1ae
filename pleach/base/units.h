// Sizes, bandwidths and times: parsed and printed at the edge, integers inside.
// Time is int64 picoseconds, sizes are bytes. GB = 10^9 bytes, GiB = 2^30 bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "pleach/base/result.h"

namespace pleach {

inline constexpr int64_t kPicosecondsPerSecond = 1'000'000'000'000;

// No time is longer (26 days): clocks end here, and longer durations are refused or count as just
// more. Three of them add up without overflow.
inline constexpr int64_t kLongestPs = INT64_MAX / 4;
inline constexpr std::string_view kLongestText = "26 days";

// first + second, at most kLongestPs + 1. Both ≥ 0.
inline int64_t add_times_ps(int64_t first_ps, int64_t second_ps) {
  const int64_t sum_ps = std::min(first_ps, kLongestPs + 1) + std::min(second_ps, kLongestPs + 1);
  return std::min(sum_ps, kLongestPs + 1);
}

// "64MiB", "1GB", "4096", "1.5KiB" → bytes. Errors: kInvalidArgument names the text.
Result<int64_t> parse_size_bytes(std::string_view text);
// "16GB/s", "100Gb/s", "100Mbit/s", "25GiB/s" → bytes per second, > 0.
Result<int64_t> parse_bandwidth_bytes_per_s(std::string_view text);
// "150ns", "10us", "2ms", "1s", "500ps", "0" → picoseconds, ≥ 0.
Result<int64_t> parse_time_ps(std::string_view text);

// "64 MiB", "1.50 KiB", "100 B": three significant digits, binary units.
std::string format_size(int64_t size_bytes);
// "12.3 us": three significant digits.
std::string format_time(int64_t time_ps);
// "16.0 GB/s".
std::string format_bandwidth(double bytes_per_s);

// Time to move `size_bytes` at `bandwidth_bytes_per_s` [ps], rounded up.
//   size_bytes ≥ 0, bandwidth_bytes_per_s > 0; saturates at INT64_MAX.
int64_t transmit_time_ps(int64_t size_bytes, int64_t bandwidth_bytes_per_s);

}  // namespace pleach
