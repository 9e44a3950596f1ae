// Prints how long, in nanoseconds, a word takes from one core to another and back: virtual machines
// move their cores, and all times of short messages follow.
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int kTurns = 20000;
constexpr int kRepeats = 5;

struct alignas(128) Word {
  std::atomic<int> value{0};
};

// The cores that this process may run on.
std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) {
        cores.push_back(core);
      }
    }
  }
  return cores;
}

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

double time_ns(int other_core) {
  Word there;
  Word back;
  std::thread other([&] {
    pin_to(other_core);
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
  const std::vector<int> cores = own_cores();
  if (cores.size() < 2) {
    std::fprintf(stderr, "there are no two cores\n");
    return 1;
  }
  pin_to(cores[0]);
  std::array<double, kRepeats> times{};
  std::generate(times.begin(), times.end(), [&] { return time_ns(cores[1]); });
  std::sort(times.begin(), times.end());
  std::printf("%.0f\n", times[kRepeats / 2]);
  return 0;
}
