// Operation: a collective or a message that has been started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"

namespace pleach {

class Progress;
struct OperationState;

// What a receive has received.
struct Received {
  Rank source;  // in its communicator; -1: nothing
  int64_t bytes = 0;
};

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
  // Of a receive that is done well.
  Received received() const;

 private:
  std::shared_ptr<OperationState> state_;
  std::shared_ptr<Progress> progress_;
};

}  // namespace pleach
