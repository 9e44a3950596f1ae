// Values that come from Python as text with a unit, or as a number.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/units.h"
#include "pleach/python/errors.h"

namespace pleach::python {

using Quantity = std::variant<int64_t, std::string>;
using Size = Quantity;       // "64MiB", or bytes
using Bandwidth = Quantity;  // "16GB/s", or bytes per second
using Time = Quantity;       // "150ns", or picoseconds

inline int64_t quantity(const Quantity& given, Result<int64_t> (*parse)(std::string_view)) {
  const auto* text = std::get_if<std::string>(&given);
  return text == nullptr ? std::get<int64_t>(given) : take(parse(*text));
}
inline int64_t size_bytes(const Size& size) {
  return quantity(size, parse_size_bytes);
}
inline int64_t bandwidth_bytes_per_s(const Bandwidth& bandwidth) {
  return quantity(bandwidth, parse_bandwidth_bytes_per_s);
}
inline int64_t time_ps(const Time& time) {
  return quantity(time, parse_time_ps);
}

template <typename Tag>
std::vector<int32_t> numbers_of(std::span<const Id<Tag>> ids) {
  std::vector<int32_t> numbers;
  numbers.reserve(ids.size());
  for (const Id<Tag> id : ids) {
    numbers.push_back(id.value);
  }
  return numbers;
}
template <typename Tag>
std::vector<int32_t> numbers_of(const std::vector<Id<Tag>>& ids) {
  return numbers_of(std::span<const Id<Tag>>(ids));
}

}  // namespace pleach::python
