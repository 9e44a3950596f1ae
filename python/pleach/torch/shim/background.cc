#include "background.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "ending.h"

namespace pleach_torch {
namespace {

// Never destroyed: threads use it until the process ends.
struct Background {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;  // tasks that are under way

  static Background& of_process() {
    static auto* const background = new Background;
    return *background;
  }
};

}  // namespace

void run_in_background(std::function<void()> task) {
  if (is_ending()) {
    return;  // what it would release is the process's to the end
  }
  Background& all = Background::of_process();
  {
    const std::scoped_lock lock(all.mutex);
    ++all.count;
  }
  std::thread([&all, task = std::move(task)]() mutable {
    task();
    task = nullptr;
    const std::scoped_lock lock(all.mutex);
    --all.count;
    all.changed.notify_all();
  }).detach();
}

bool await_background(std::chrono::steady_clock::time_point deadline) {
  Background& all = Background::of_process();
  std::unique_lock lock(all.mutex);
  return all.changed.wait_until(lock, deadline, [&] { return all.count == 0; });
}

}  // namespace pleach_torch
