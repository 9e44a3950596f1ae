#include "pleach/runtime/transports/patience.h"

#include <sched.h>

#include <chrono>

namespace pleach {

Patience Patience::for_ranks(int32_t rank_count) {
  constexpr int32_t kSpins = 4000;  // some 50 us: as long as falling asleep and waking takes
  constexpr int32_t kSpinsShared = 20;
  constexpr int32_t kYields = 100;
  cpu_set_t cores;
  const bool is_known = sched_getaffinity(0, sizeof(cores), &cores) == 0;
  Patience patience;
  const bool has_core = is_known && rank_count <= CPU_COUNT(&cores);
  patience.spins_ = has_core ? kSpins : kSpinsShared;
  patience.yields_ = has_core ? 0 : kYields;
  return patience;
}

bool Patience::give_way() {
  constexpr std::chrono::microseconds kSoon(200);
  const auto start = std::chrono::steady_clock::now();
  sched_yield();
  return std::chrono::steady_clock::now() - start < kSoon;
}

}  // namespace pleach
