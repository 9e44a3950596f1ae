// Sets of small numbers as bits: of one word where that suffices, else of several.
#pragma once

#include <bit>
#include <cstdint>

namespace pleach {

inline uint64_t bit_of(uint32_t number) {
  return uint64_t{1} << (number & 63U);
}
// The lowest `count` bits, 0 to 64.
inline uint64_t low_bits(uint32_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}
// The smallest number of `mask` from `from` (0 to 63) on, or, where there is none, the smallest.
// Some bit is set.
inline uint32_t first_from(uint64_t mask, uint32_t from) {
  const uint64_t high = mask & (~uint64_t{0} << from);
  return static_cast<uint32_t>(std::countr_zero(high != 0 ? high : mask));
}

// The same for sets of `words` words at a pointer; kOneWord: `words` is 1, and nobody looks.
template <bool kOneWord>
struct Bits {
  static void set(uint64_t* mask, uint32_t number) {
    mask[kOneWord ? 0 : number / 64] |= bit_of(number);
  }
  static void clear(uint64_t* mask, uint32_t number) {
    mask[kOneWord ? 0 : number / 64] &= ~bit_of(number);
  }
  static bool has(const uint64_t* mask, uint32_t number) {
    return (mask[kOneWord ? 0 : number / 64] & bit_of(number)) != 0;
  }
  static bool any(const uint64_t* mask, uint32_t words) {
    if constexpr (kOneWord) {
      return *mask != 0;
    }
    for (uint32_t word = 0; word < words; ++word) {
      if (mask[word] != 0) {
        return true;
      }
    }
    return false;
  }
  // As pleach::first_from; `from` is below 64 · words. Some bit is set.
  static uint32_t first_from(const uint64_t* mask, uint32_t words, uint32_t from) {
    if constexpr (kOneWord) {
      return pleach::first_from(*mask, from);
    }
    uint32_t word = from / 64;
    uint64_t bits = mask[word] & (~uint64_t{0} << (from & 63U));
    while (bits == 0) {
      word = word + 1 == words ? 0 : word + 1;
      bits = mask[word];
    }
    return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
  // The numbers first .. first + count, count ≤ 64, as bits from 0 on.
  static uint64_t slice(const uint64_t* mask, uint32_t first, uint32_t count) {
    if constexpr (kOneWord) {
      return (*mask >> first) & low_bits(count);
    }
    const uint32_t shift = first & 63U;
    uint64_t bits = mask[first / 64] >> shift;
    if (shift + count > 64) {
      bits |= mask[first / 64 + 1] << (64 - shift);
    }
    return bits & low_bits(count);
  }
  // Visits the numbers in ascending order; visit may clear what it has seen.
  template <typename Visit>
  static void for_each(const uint64_t* mask, uint32_t words, Visit visit) {
    for (uint32_t word = 0; word < (kOneWord ? 1 : words); ++word) {
      for (uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
  }
};

}  // namespace pleach
