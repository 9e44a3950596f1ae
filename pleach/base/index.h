// Index: numbers of things are int32_t, positions in arrays std::size_t; here they meet.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace pleach {

// The position in an array of what has the number, or the enumerator, `index` ≥ 0; or a count of
// such positions.
template <typename Number>
requires(std::integral<Number> || std::is_enum_v<Number>) constexpr std::size_t at(Number index) {
  return static_cast<std::size_t>(index);
}

// How many elements an array of numbered things has; fewer than 2^31.
template <typename Container>
constexpr int32_t count_of(const Container& container) {
  return static_cast<int32_t>(std::size(container));
}

}  // namespace pleach
