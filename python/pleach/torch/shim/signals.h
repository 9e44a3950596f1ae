// Signals, which Python's main thread takes between the slices of a wait.
#pragma once

#include <chrono>
#include <exception>

namespace pleach_torch {

// A wait looks for signals so often.
constexpr std::chrono::milliseconds kBetweenSignals(100);

// How the main thread runs Python's handlers of signals that have come; throws what one raises.
// Unset: there is no Python.
void set_signal_check(void (*run_handlers)());

// Does so in the main thread; in others nothing. Its exception is Python's.
void take_signals();

// While it lives, what this thread creates of the library or runs in it takes signals, if this is
// the main thread, and ends where a handler raises. Not nested.
class Interruptible {
 public:
  Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  ~Interruptible();
  // Throws what a handler has raised.
  void check() const;

 private:
  const bool takes_signals_;
  std::exception_ptr raised_;
};

}  // namespace pleach_torch
