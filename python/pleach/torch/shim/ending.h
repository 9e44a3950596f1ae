// The end of the process: from then on threads of this module may not come near Python, which
// ends a thread that asks for its lock, and with it, in C++, the process.
#pragma once

#include <chrono>

namespace pleach_torch {

// How a thread finds out that it holds Python's lock. Unset: none does.
void set_lock_check(bool (*holds_lock)());

// The interpreter is about to end.
bool is_ending();

// Says so, in the thread that ends it, and waits until no callback runs any more, at most so long.
void begin_ending(std::chrono::milliseconds longest);

// Work of a library's thread, or of this module's, that may touch Python or release tensors.
class Callback {
 public:
  Callback();
  ~Callback();
  Callback(const Callback&) = delete;
  Callback& operator=(const Callback&) = delete;
  // False: the process ends; it may do nothing, and has to leave what it would release.
  explicit operator bool() const { return may_run_; }

 private:
  bool may_run_;
};

// A call from Python without its lock. When the process ends it returns to the thread that ends
// it, and to no other: that one sleeps until the process is gone.
class Call {
 public:
  Call() {}  // not trivial: it is used by its end
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

}  // namespace pleach_torch
