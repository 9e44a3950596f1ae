// SignalMask: signals that wait.
#pragma once

#include <csignal>
#include <initializer_list>

namespace pleach {

// Blocks signals of this thread, besides those that are blocked already, while it lives; what came
// meanwhile arrives at its end, unless somebody has waited for it.
class SignalMask {
 public:
  SignalMask(std::initializer_list<int> signals) {
    sigemptyset(&blocked_);
    for (const int signal : signals) {
      sigaddset(&blocked_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &blocked_, &before_);
  }
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;
  ~SignalMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t& blocked() const { return blocked_; }
  const sigset_t& before() const { return before_; }  // what was blocked before

 private:
  sigset_t blocked_ = {}, before_ = {};
};

}  // namespace pleach
