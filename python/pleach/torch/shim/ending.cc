#include "ending.h"

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace pleach_torch {
namespace {

// Never destroyed: threads use it until the process ends.
struct Ending {
  std::mutex mutex;
  std::condition_variable changed;
  int callbacks = 0;  // under way
  std::thread::id thread;
  std::atomic<bool> has_begun = false;  // changed with the mutex
  std::atomic<bool (*)()> holds_lock = nullptr;

  static Ending& of_process() {
    static auto* const ending = new Ending;
    return *ending;
  }
};

}  // namespace

void set_lock_check(bool (*holds_lock)()) {
  Ending::of_process().holds_lock = holds_lock;
}

bool is_ending() {
  return Ending::of_process().has_begun;
}

void begin_ending(std::chrono::milliseconds longest) {
  Ending& ending = Ending::of_process();
  std::unique_lock lock(ending.mutex);
  ending.thread = std::this_thread::get_id();
  ending.has_begun = true;
  ending.changed.wait_for(lock, longest, [&] { return ending.callbacks == 0; });
}

Callback::Callback() {
  Ending& ending = Ending::of_process();
  const std::scoped_lock lock(ending.mutex);
  may_run_ = !ending.has_begun;
  ending.callbacks += may_run_ ? 1 : 0;
}

Callback::~Callback() {
  if (may_run_) {
    Ending& ending = Ending::of_process();
    const std::scoped_lock lock(ending.mutex);
    if (--ending.callbacks == 0 && ending.has_begun) {
      ending.changed.notify_all();
    }
  }
}

Call::~Call() {
  const Ending& ending = Ending::of_process();
  if (!ending.has_begun || ending.thread == std::this_thread::get_id()) {
    return;
  }
  if (bool (*const holds_lock)() = ending.holds_lock; holds_lock != nullptr && holds_lock()) {
    return;
  }
  while (true) {
    pause();
  }
}

}  // namespace pleach_torch
