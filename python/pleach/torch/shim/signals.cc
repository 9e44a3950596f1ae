#include "signals.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdint>

#include "pleach/api/pleach.h"

namespace pleach_torch {
namespace {

void (*handlers)() = nullptr;

// True in the process's main thread. It is kept, as finding out takes two system calls.
thread_local bool is_main = gettid() == getpid();

bool is_main_thread() {
  // A child of fork() has one thread, whichever has forked it.
  static const int registered = pthread_atfork(nullptr, nullptr, [] { is_main = true; });
  static_cast<void>(registered);
  return handlers != nullptr && is_main;
}

int32_t is_interrupted(void* raised) {
  try {
    take_signals();
  } catch (...) {
    *static_cast<std::exception_ptr*>(raised) = std::current_exception();
    return 1;
  }
  return 0;
}

}  // namespace

void set_signal_check(void (*run_handlers)()) {
  handlers = run_handlers;
}

void take_signals() {
  if (is_main_thread()) {
    handlers();
  }
}

Interruptible::Interruptible() : takes_signals_(is_main_thread()) {
  if (takes_signals_) {
    pleach_set_interrupt(is_interrupted, &raised_);
  }
}

Interruptible::~Interruptible() {
  if (takes_signals_) {
    pleach_set_interrupt(nullptr, nullptr);
  }
}

void Interruptible::check() const {
  if (raised_ != nullptr) {
    std::rethrow_exception(raised_);
  }
}

}  // namespace pleach_torch
