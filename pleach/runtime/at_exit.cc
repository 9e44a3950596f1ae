#include "pleach/runtime/at_exit.h"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/runtime/process_mark.h"

namespace pleach {

struct AtExit::Process {
  const ProcessMark mark;
  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by it:
  std::vector<AtExit*> alive;
  const AtExit* called = nullptr;
  std::thread::id caller;
};

// What is told when everything ends, statics too, is never destroyed. A child begins anew: the
// mutex may have been locked when it was forked.
AtExit::Process& AtExit::this_process() {
  static std::atomic<Process*> present = nullptr;
  static const int registered = std::atexit(call_all);
  static_cast<void>(registered);
  Process* known = present.load();
  while (known == nullptr || !known->mark.is_here()) {
    auto made = std::make_unique<Process>();
    if (present.compare_exchange_strong(known, made.get())) {
      known = made.release();
    }
  }
  return *known;
}

void AtExit::call_all() {
  Process& process = this_process();
  std::unique_lock lock(process.mutex);
  process.caller = std::this_thread::get_id();
  while (!process.alive.empty()) {
    const AtExit* const last = process.alive.back();
    process.alive.pop_back();
    process.called = last;
    lock.unlock();
    last->callback_();
    lock.lock();
    process.called = nullptr;
    process.changed.notify_all();
  }
}

AtExit::AtExit(std::function<void()> callback)
    : callback_(std::move(callback)), process_(this_process()) {
  const std::scoped_lock lock(process_.mutex);
  process_.alive.push_back(this);
}

AtExit::~AtExit() {
  if (!process_.mark.is_here()) {
    return;
  }
  std::unique_lock lock(process_.mutex);
  std::erase(process_.alive, this);
  process_.changed.wait(lock, [this] {
    return process_.called != this || process_.caller == std::this_thread::get_id();
  });
}

}  // namespace pleach
