#include "completions.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "ending.h"

namespace pleach_torch {
namespace {

constexpr std::chrono::seconds kIdle(1);

class Completions {
 public:
  void add(std::function<void()> task) {
    std::unique_lock lock(mutex_);
    if (tasks_.size() >= idle_ && !start_thread() && threads_ == 0) {
      lock.unlock();
      run(std::move(task));  // no thread can be had
      return;
    }
    tasks_.push_back(std::move(task));
    changed_.notify_one();
  }

 private:
  // False: the process may have no more threads. Those that it has take the tasks later.
  bool start_thread() {
    try {
      std::thread(&Completions::work, this).detach();
    } catch (const std::system_error&) {
      return false;
    }
    ++idle_;  // it will be
    ++threads_;
    return true;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!changed_.wait_for(lock, kIdle, [&] { return !tasks_.empty(); })) {
        --idle_;
        --threads_;
        return;
      }
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      --idle_;
      lock.unlock();
      run(std::move(task));
      lock.lock();
      ++idle_;
    }
  }

  static void run(std::function<void()> task) {
    if (const Callback callback; callback) {
      task();
      task = nullptr;
      return;
    }
    // It may hold what only Python can release.
    static_cast<void>(new std::function<void()>(std::move(task)));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;  // threads that take a task next
  size_t threads_ = 0;
};

}  // namespace

void run_soon(std::function<void()> task) {
  static auto* const all = new Completions;  // threads use it until the process ends
  all->add(std::move(task));
}

}  // namespace pleach_torch
