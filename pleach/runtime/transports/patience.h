// Patience: how a rank waits for memory to change, or for its sockets, before it sleeps.
#pragma once

#include <cstdint>

#include "pleach/base/result.h"

namespace pleach {

// Where every rank has a core, a rank spins: what it waits for is a cache miss away. Where ranks
// share cores it gives its core away instead, until it once gets it back late: others want it more,
// and who sleeps is served before who gives way. All ends soon: waits for a late peer cost nothing.
class Patience {
 public:
  // For so many ranks on the cores that this process may run on.
  static Patience for_ranks(int32_t rank_count);

  bool has_core() const { return yields_ == 0; }  // every rank of them
  // Whether `happened` came true before the patience was at its end.
  template <typename Happened>
  bool spin_until(const Happened& happened) const {
    for (int32_t spin = 0; spin < spins_; ++spin) {
      if (happened()) {
        return true;
      }
      relax();
    }
    bool is_soon = true;
    for (int32_t i = 0; i < yields_ && is_soon; ++i) {
      is_soon = give_way();
      if (happened()) {
        return true;
      }
    }
    return false;
  }

  // How often spin_until() asks between two looks for what only a system call sees. Who gives his
  // core away may have it back late: he looks each time.
  int32_t asks_per_look() const { return yields_ > 0 ? 1 : kSpinsPerLook; }

  // The same where cores are not shared, for what only a system call sees: `look` makes it, every
  // three microseconds, and returns whether it happened.
  template <typename Look>
  Result<bool> look_until(const Look& look) const {
    for (int32_t left = spins_ / kSpinsPerLook; left > 0; --left) {
      PLEACH_ASSIGN(happened, look());
      if (happened) {
        return true;
      }
      for (int32_t spin = 0; spin < kSpinsPerLook; ++spin) {
        relax();
      }
    }
    return false;
  }

 private:
  static constexpr int32_t kSpinsPerLook = 250;

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  // Whether the core came back soon.
  static bool give_way();

  int32_t spins_ = 0;
  int32_t yields_ = 0;
};

}  // namespace pleach
