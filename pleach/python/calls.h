// Calls of the library without the interpreter's lock. Signals reach Python meanwhile, and the
// interpreter may end.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>

#include "pleach/base/interruption.h"

namespace pleach::python {

// The end of the interpreter: no thread but the one that ends it goes on then. Thread safe.
class Ending {
 public:
  static Ending& present();

  // Calls of this thread into the library.
  void enter() { ++calls_; }
  void leave();
  // From now on every other thread ends when its call does. The lock is held.
  void begin();
  bool has_begun() const { return has_begun_; }
  // The interpreter ends, and this thread does not end it.
  bool is_elsewhere() const { return has_begun_ && ender_ != std::this_thread::get_id(); }
  // Waits until no thread is in a call. False: some are still, after that long. Without the lock.
  bool wait_until_left(std::chrono::milliseconds wait);
  // In a child of fork(): the other threads are the parent's.
  void forget() { calls_ = 0; }

 private:
  std::atomic<bool> has_begun_ = false;
  std::thread::id ender_;  // once it has begun
  std::atomic<int> calls_ = 0;
  std::mutex mutex_;
  std::condition_variable left_;
};

// Python ends threads that come back when the interpreter has ended (before version 3.14), by
// unwinding their stack. Functions of others on it do not expect that, and would end the process:
// such a thread stays here instead, as its end is that of this.
class Stay {
 public:
  Stay() = default;
  Stay(const Stay&) = delete;
  Stay& operator=(const Stay&) = delete;
  ~Stay();
  void has_returned() { has_returned_ = true; }

 private:
  bool has_returned_ = false;
};

// While it lives, this thread does not hold the interpreter's lock. Where the interpreter ends
// meanwhile, a thread that is not the one that ends it never returns from here.
class Unlocked {
 public:
  Unlocked();
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { lock(); }
  // Takes the lock back. Raises nothing.
  [[gnu::noinline]] void lock();
  // Lets go of it again.
  void unlock();

 private:
  PyThreadState* state_;  // null: this thread holds the lock
};

// A call of this thread into the library.
class Call {
 public:
  // Raises SystemExit where the interpreter ends in another thread.
  Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call();

  // The innermost one of this thread; null: it is in none.
  static Call* present();
  // True: the call is to end, as a signal's handler has raised an exception, or the interpreter
  // ends. Runs the handlers of signals that have come.
  bool is_interrupted() noexcept;
  // Runs `function` with the interpreter's lock. It throws nothing.
  template <typename Function>
  void locked(const Function& function) {
    unlocked_.lock();
    Stay stay;
    function();
    stay.has_returned();
    unlocked_.unlock();
  }
  // Takes the lock back. Raises what a handler has raised, and SystemExit as the constructor does.
  void end();

 private:
  void leave();

  Call* const outer_;
  Unlocked unlocked_;
  bool has_left_ = false;
  std::exception_ptr raised_;
};

// Returns what `function` returns, a computation, called without the interpreter's lock. A signal's
// exception ends it.
template <typename Function>
auto unlocked(const Function& function) {
  Call call;
  const Interruption interruption([&call] { return call.is_interrupted(); });
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      call.end();
      return;
    } else {
      auto result = function();
      call.end();
      return result;
    }
  } catch (const Interrupted&) {
  }
  call.end();
  throw Interrupted();  // it was no signal
}

// The same of a function of the C interface that does not wait.
template <typename Function>
auto unlocked_briefly(const Function& function) {
  Call call;
  const auto result = function();
  call.end();
  return result;
}

}  // namespace pleach::python
