// Operation: a collective that has been started.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"

namespace pleach {

class Progress;
struct OperationState;

// A handle; copies are of the same operation. The buffers of its request stay the operation's until
// it is done. It keeps the endpoint, and no communicator: one that is destroyed ends its
// operations. Thread safe.
class Operation {
 public:
  Operation(std::shared_ptr<OperationState> state, std::shared_ptr<Progress> progress)
      : state_(std::move(state)), progress_(std::move(progress)) {}

  // Whether it is done, well or not. Moves on what can move without waiting.
  bool test() const;
  // Waits until it is done, and returns how it ended.
  //   errors  kTimeout: it was not done within `timeout`; it goes on, and nothing is poisoned.
  //           Otherwise those of Communicator::run
  Status wait(Duration timeout = Duration::max()) const;
  // Calls back when it is done, in the thread that finds that out, at once if it is done already:
  // perhaps a little after wait() or test() tell of it elsewhere, but before its communicator is
  // closed or destroyed by another thread. One callback, a later one takes its place; it may start
  // operations and hold the last reference to anything, but wait for nothing.
  void on_done(std::function<void(const Status&)> callback) const;

  // When it was started, and when it was found to be done (zero before).
  TimePoint started() const;
  TimePoint finished() const;

 private:
  std::shared_ptr<OperationState> state_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace pleach
