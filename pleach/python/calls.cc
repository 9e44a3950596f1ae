#include "pleach/python/calls.h"

#include <unistd.h>

#include <utility>

namespace pleach::python {
namespace {

namespace nb = nanobind;

Call*& innermost() {
  thread_local Call* own = nullptr;
  return own;
}

// Ends the calling thread by SystemExit, without a trace, if another one ends the interpreter.
void check_ending() {
  if (Ending::present().is_elsewhere()) {
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
}

Call* enter() {
  check_ending();
  Ending::present().enter();
  return innermost();
}

}  // namespace

// Never destroyed: threads that the interpreter leaves behind are in calls until the process ends.
Ending& Ending::present() {
  static Ending* const process = new Ending;  // NOLINT(cppcoreguidelines-owning-memory)
  return *process;
}

void Ending::leave() {
  if (--calls_ <= 0 && has_begun_) {
    const std::scoped_lock lock(mutex_);
    left_.notify_all();
  }
}

void Ending::begin() {
  ender_ = std::this_thread::get_id();
  has_begun_ = true;
}

bool Ending::wait_until_left(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  return left_.wait_for(lock, wait, [this] { return calls_ <= 0; });
}

Unlocked::Unlocked() : state_(PyEval_SaveThread()) {}

Stay::~Stay() {
  while (!has_returned_) {
    pause();
  }
}

void Unlocked::lock() {
  if (state_ != nullptr) {
    Stay stay;
    PyEval_RestoreThread(std::exchange(state_, nullptr));
    stay.has_returned();
  }
}

void Unlocked::unlock() {
  state_ = PyEval_SaveThread();
}

Call::Call() : outer_(enter()) {
  innermost() = this;
}

Call::~Call() {
  leave();
}

void Call::leave() {
  if (!std::exchange(has_left_, true)) {
    innermost() = outer_;
    Ending::present().leave();
  }
}

Call* Call::present() {
  return innermost();
}

bool Call::is_interrupted() noexcept {
  if (raised_ != nullptr || Ending::present().is_elsewhere()) {
    return true;
  }
  locked([this] {
    if (PyErr_CheckSignals() != 0) {
      raised_ = std::make_exception_ptr(nb::python_error());
    }
  });
  return raised_ != nullptr;
}

void Call::end() {
  leave();
  unlocked_.lock();
  if (raised_ != nullptr) {
    std::rethrow_exception(std::exchange(raised_, nullptr));
  }
  check_ending();
}

}  // namespace pleach::python
