// Prints how long, in nanoseconds, a word takes from one core to another and back: virtual machines
// move their cores, and all times of short messages follow.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

constexpr int kTurns = 20000;
constexpr int kRepeats = 5;

struct alignas(128) Word {
  std::atomic<int> value{0};
};

void pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);  // where it is not permitted, the kernel chooses
}

double time_ns() {
  Word there;
  Word back;
  std::thread other([&] {
    pin_to(1);
    for (int turn = 1; turn <= kTurns; ++turn) {
      while (there.value.load(std::memory_order_acquire) != turn) {
      }
      back.value.store(turn, std::memory_order_release);
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  for (int turn = 1; turn <= kTurns; ++turn) {
    there.value.store(turn, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != turn) {
    }
  }
  const auto end = std::chrono::steady_clock::now();
  other.join();
  return std::chrono::duration<double, std::nano>(end - begin).count() / kTurns;
}

}  // namespace

int main() {
  pin_to(0);
  std::array<double, kRepeats> times{};
  std::generate(times.begin(), times.end(), time_ns);
  std::sort(times.begin(), times.end());
  std::printf("%.0f\n", times[kRepeats / 2]);
  return 0;
}
