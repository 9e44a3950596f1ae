// Functions of the C interface, called from Python.
#pragma once

#include <memory>

#include "pleach/api/pleach.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"

namespace pleach::python {

// While it lives, what waits in libpleach.so asks the call if it is to end.
class Asking {
 public:
  explicit Asking(Call& call);
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  ~Asking();

 private:
  Call* const outer_;
};

// Calls a function that returns a pleach_status, and raises what is wrong.
inline void check(pleach_status status) {
  if (status != PLEACH_OK) {
    raise(status, pleach_last_error());
  }
}

// One that waits for no other rank.
template <typename Function>
void call_briefly(const Function& function) {
  Call call;
  const pleach_status status = function();
  call.end();
  check(status);
}

// One that waits for other ranks: a signal's exception ends it, and the job with it.
template <typename Function>
void call_and_wait(const Function& function) {
  Call call;
  pleach_status status = PLEACH_OK;
  {
    const Asking asking(call);
    status = function();
  }
  call.end();
  check(status);
}

// A handle, which is destroyed without the interpreter's lock.
template <typename Handle, void (*destroy)(Handle*)>
struct Destroy {
  void operator()(Handle* handle) const {
    const Unlocked unlocked;
    destroy(handle);
  }
};
template <typename Handle, void (*destroy)(Handle*)>
using Owned = std::unique_ptr<Handle, Destroy<Handle, destroy>>;
using OwnedEndpoint = Owned<pleach_endpoint, pleach_endpoint_destroy>;
using OwnedCommunicator = Owned<pleach_communicator, pleach_communicator_destroy>;
using OwnedOperation = Owned<pleach_operation, pleach_operation_destroy>;

// A handle that calls of several threads use: once it is to end, the last of them destroys it. The
// interpreter's lock guards it.
template <typename OwnedHandle>
class Shared {
 public:
  using Pointer = typename OwnedHandle::pointer;

  // While it lives, the handle does too.
  class Use {
   public:
    explicit Use(Shared& shared) : shared_(shared) { ++shared_.uses_; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (--shared_.uses_ == 0 && shared_.is_over_) {
        shared_.handle_.reset();
      }
    }
    operator Pointer() const { return shared_.handle_.get(); }  // NOLINT

   private:
    Shared& shared_;
  };

  void set(Pointer handle) { handle_ = OwnedHandle(handle); }
  bool is_open() const { return handle_ != nullptr && !is_over_; }
  // To be destroyed by the caller; null: the last use of it will.
  Pointer end() {
    is_over_ = true;
    return uses_ == 0 ? handle_.release() : nullptr;
  }

 private:
  OwnedHandle handle_;
  int uses_ = 0;
  bool is_over_ = false;
};
using SharedEndpoint = Shared<OwnedEndpoint>;
using SharedCommunicator = Shared<OwnedCommunicator>;

}  // namespace pleach::python
