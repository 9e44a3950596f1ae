#include "pleach/base/interruption.h"

#include <utility>

namespace pleach {
Interruption::Interruption(std::function<bool()> ask)
    : ask_(std::move(ask)),
      outer_(std::exchange(innermost_, this)),
      next_(std::chrono::steady_clock::now() + kInterruptionInterval) {}

Interruption::~Interruption() {
  innermost_ = outer_;
}

bool Interruption::is_due() {
  if (is_interrupted_) {
    return true;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) {
    return false;
  }
  Interruption* const own = std::exchange(innermost_, nullptr);  // `ask` may do work too
  is_interrupted_ = ask_() || is_interrupted_;
  innermost_ = own;
  next_ = std::chrono::steady_clock::now() + kInterruptionInterval;
  return is_interrupted_;
}

}  // namespace pleach
