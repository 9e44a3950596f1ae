#include "pleach/python/c_calls.h"

namespace pleach::python {
namespace {

// The call that libpleach.so asks in this thread; null: none.
Call*& asked() {
  thread_local Call* own = nullptr;
  return own;
}

int32_t ask(void* context);

void set_asked(Call* call) {
  asked() = call;
  pleach_set_interrupt(call == nullptr ? nullptr : ask, call);
}

// A signal's handler may call the library: that does not ask this call.
int32_t ask(void* context) {
  auto* const call = static_cast<Call*>(context);
  set_asked(nullptr);
  const bool is_over = call->is_interrupted();
  set_asked(call);
  return is_over ? 1 : 0;
}

}  // namespace

Asking::Asking(Call& call) : outer_(asked()) {
  set_asked(&call);
}

Asking::~Asking() {
  set_asked(outer_);
}

}  // namespace pleach::python
