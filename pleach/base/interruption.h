// Interruption: ends long work whose caller no longer waits for it, as after Ctrl-C.
#pragma once

#include <chrono>
#include <exception>
#include <functional>

namespace pleach {

// Thrown by check_interruption() through the work that it ends.
class Interrupted final : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// The longest time for which a wait does not ask.
inline constexpr std::chrono::milliseconds kInterruptionInterval{50};

// While it lives, long work and waits of the thread that made it ask it now and then if they are to
// end: once it says so, it is not asked again. Programs that make none are not affected. Work that
// runs in several threads is asked in this one. The innermost one of a thread counts.
class Interruption {
 public:
  //   ask  true: the work is to end. Throws nothing.
  explicit Interruption(std::function<bool()> ask);
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  ~Interruption();

  // The thread's; null: it has none.
  static Interruption* present() { return innermost_; }
  // The work is to end, whatever `ask` says.
  void interrupt() { is_interrupted_ = true; }
  // The work has been told to end.
  bool has_ended() const { return is_interrupted_; }
  // Asks, unless that was less than the interval ago.
  bool is_due();
  // Like is_due(), but most calls only count.
  bool is_due_after_many() {
    if (--countdown_ > 0) {
      return false;
    }
    countdown_ = kCalls;
    return is_due();
  }

 private:
  // Calls between two looks at the clock. A call costs a thousandth of a look, and steps of a
  // millisecond are still interrupted in time.
  static constexpr int kCalls = 64;

  static inline thread_local Interruption* innermost_ = nullptr;  // inline: loops read it

  const std::function<bool()> ask_;
  Interruption* const outer_;
  int countdown_ = 1;
  bool is_interrupted_ = false;
  std::chrono::steady_clock::time_point next_;
};

// For loops of long work: throws Interrupted if it is to end. A loop calls it at least every
// millisecond.
//   cost  a load and a decrement
inline void check_interruption() {
  Interruption* const present = Interruption::present();
  if (present != nullptr && present->is_due_after_many()) {
    throw Interrupted();
  }
}

// For waits, which end with an error: true if they are to end.
inline bool is_interrupted() {
  Interruption* const present = Interruption::present();
  return present != nullptr && present->is_due();
}
// Like check_interruption(), for loops whose steps take longer: every call looks at the clock.
inline void check_interruption_now() {
  if (is_interrupted()) {
    throw Interrupted();
  }
}

}  // namespace pleach
