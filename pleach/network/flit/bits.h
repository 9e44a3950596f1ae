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
// The smallest number of `mask`, in which some bit is set.
inline uint32_t first_of(uint64_t mask) {
  return static_cast<uint32_t>(std::countr_zero(mask));
}
// The smallest number of `mask` from `from` (0 to 64) on, or, where there is none, the smallest.
// Some bit is set.
inline uint32_t first_from(uint64_t mask, uint32_t from) {
  return (from + first_of(std::rotr(mask, static_cast<int>(from)))) & 63U;
}
inline bool has_one(uint64_t mask) {
  return (mask & (mask - 1)) == 0 && mask != 0;
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
  // The same without a branch: only if `value`.
  static void set_if(uint64_t* mask, uint32_t number, bool value) {
    mask[kOneWord ? 0 : number / 64] |= uint64_t{value} << (number & 63U);
  }
  static void clear_if(uint64_t* mask, uint32_t number, bool value) {
    mask[kOneWord ? 0 : number / 64] &= ~(uint64_t{value} << (number & 63U));
  }
  static bool has(const uint64_t* mask, uint32_t number) {
    return (mask[kOneWord ? 0 : number / 64] >> (number & 63U) & 1U) != 0;
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
  // Whether two sets share a number.
  static bool meet(const uint64_t* one, const uint64_t* other, uint32_t words) {
    uint64_t shared = 0;
    for (uint32_t word = 0; word < (kOneWord ? 1 : words); ++word) {
      shared |= one[word] & other[word];
    }
    return shared != 0;
  }
  // What is in one and not in the other, in `room`.
  static const uint64_t* minus(const uint64_t* one, const uint64_t* other, uint32_t words,
                               uint64_t* room) {
    for (uint32_t word = 0; word < (kOneWord ? 1 : words); ++word) {
      room[word] = one[word] & ~other[word];
    }
    return room;
  }
  // As pleach::first_from; `from` is at most 64 · words. Some bit is set.
  static uint32_t first_from(const uint64_t* mask, uint32_t words, uint32_t from) {
    if constexpr (kOneWord) {
      return pleach::first_from(*mask, from);
    }
    uint32_t word = from / 64 == words ? 0 : from / 64;
    uint64_t bits = mask[word] & (~uint64_t{0} << (from & 63U));
    while (bits == 0) {
      word = word + 1 == words ? 0 : word + 1;
      bits = mask[word];
    }
    return word * 64 + first_of(bits);
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
    for_each_shared(mask, mask, words, visit);
  }
  // The same for those of both sets.
  template <typename Visit>
  static void for_each_shared(const uint64_t* one, const uint64_t* other, uint32_t words,
                              Visit visit) {
    for (uint32_t word = 0; word < (kOneWord ? 1 : words); ++word) {
      for (uint64_t bits = one[word] & other[word]; bits != 0; bits &= bits - 1) {
        visit(word * 64 + first_of(bits));
      }
    }
  }
};

}  // namespace pleach
