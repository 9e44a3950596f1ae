#include "pleach/base/value_range.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr double kLeastFactor = 1.01;
constexpr double kMostFactor = 1e6;
constexpr int64_t kLeastWholeFactor = 2;
constexpr int64_t kMostWholeFactor = int64_t{1} << 30;

Result<double> parse_factor(std::string_view text, bool whole) {
  if (whole) {
    PLEACH_ASSIGN(factor, parse_integer(text, "factor", kLeastWholeFactor, kMostWholeFactor));
    return static_cast<double>(factor);
  }
  const std::string written(text);
  char* end = nullptr;
  const double factor = std::strtod(written.c_str(), &end);
  if (end != written.c_str() + written.size() || !(factor >= kLeastFactor) ||
      factor > kMostFactor) {
    return invalid(
        fmt::format("factor {} is no number from {} on", pleach::quoted(text), kLeastFactor));
  }
  return factor;
}

}  // namespace

Result<std::vector<int64_t>> parse_value_range(std::string_view text, const ValueRangeForm& form) {
  const std::vector<std::string_view> parts = split(text, ':');
  if (parts.size() > 3 || (parts.size() < 2 && !form.may_be_single)) {
    return invalid(fmt::format("{} is not FROM:TO:FACTOR", pleach::quoted(text)));
  }
  PLEACH_ASSIGN(first, form.parse_value(parts[0]));
  int64_t last = first;
  double factor = 2;
  if (parts.size() > 1) {
    PLEACH_SET(last, form.parse_value(parts[1]));
  }
  if (parts.size() > 2) {
    PLEACH_SET(factor, parse_factor(parts[2], form.whole_factor));
  }
  if (first < 1 || last < first) {
    return invalid(fmt::format("{}{}", pleach::quoted(text), form.order));
  }
  std::vector<int64_t> values = {first};
  constexpr double kBeyond = 0x1p63;
  for (double next = static_cast<double>(first) * factor; next < kBeyond && values.back() < last;
       next *= factor) {
    const int64_t value = std::llround(next);
    if (value > last) {
      break;
    }
    values.push_back(value);
  }
  if (form.ends_at_last && values.back() < last) {
    values.push_back(last);
  }
  return values;
}

}  // namespace pleach
