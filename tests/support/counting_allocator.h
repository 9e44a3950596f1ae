// Counts what a test program allocates. Included by one source of a program: it replaces operator
// new for all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace pleach::support {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): operator new has no other
inline int64_t allocations = 0;

}  // namespace pleach::support

// The compiler sees half of each pair after inlining.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++pleach::support::allocations;
  return std::malloc(size);
}
void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}
