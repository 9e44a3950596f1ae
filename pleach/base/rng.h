// Rng: the one source of randomness. Seeded, and the same bytes on every platform.
#pragma once

#include <cstdint>
#include <random>

namespace pleach {

class Rng {
 public:
  explicit Rng(uint64_t seed) : engine_(seed) {}

  uint64_t next() { return engine_(); }
  // Uniform in [0, bound); bound > 0. std distributions differ between libraries, this does not.
  uint64_t below(uint64_t bound) {
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = engine_();
    while (value >= limit) {
      value = engine_();
    }
    return value % bound;
  }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace pleach
