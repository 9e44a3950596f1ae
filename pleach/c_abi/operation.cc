#include <chrono>

#include "pleach/c_abi/call.h"

using pleach::ok;
using pleach::Status;
using pleach::c_abi::call;

pleach_status pleach_operation_test(pleach_operation* operation, int32_t* is_done) {
  return call("pleach_operation_test", {{operation, "operation"}, {is_done, "is_done"}}, [&] {
    *is_done = operation->operation.test() ? 1 : 0;
    return ok();
  });
}

pleach_status pleach_operation_wait(pleach_operation* operation, int64_t timeout_ms) {
  return call("pleach_operation_wait", {{operation, "operation"}}, [&]() -> Status {
    PLEACH_ASSIGN(longest, pleach::c_abi::timeout("pleach_operation_wait", timeout_ms));
    return operation->operation.wait(longest);
  });
}

pleach_status pleach_operation_on_done(pleach_operation* operation, pleach_callback callback,
                                       void* context) {
  const void* const is_given = callback == nullptr ? nullptr : operation;
  return call("pleach_operation_on_done", {{operation, "operation"}, {is_given, "callback"}}, [&] {
    operation->operation.on_done([callback, context](const Status& status) {
      if (status) {
        callback(context, PLEACH_OK, "");
      } else {
        callback(context, pleach::c_abi::status_of(status.error().code),
                 status.error().message.c_str());
      }
    });
    return ok();
  });
}

pleach_status pleach_operation_times(pleach_operation* operation, int64_t* started_ns,
                                     int64_t* finished_ns) {
  return call("pleach_operation_times", {{operation, "operation"}}, [&] {
    const auto tell = [](pleach::TimePoint time, int64_t* told) {
      if (told != nullptr) {
        *told = std::chrono::nanoseconds(time.time_since_epoch()).count();
      }
    };
    tell(operation->operation.started(), started_ns);
    tell(operation->operation.finished(), finished_ns);
    return ok();
  });
}

void pleach_operation_destroy(pleach_operation* operation) {
  delete operation;  // NOLINT(cppcoreguidelines-owning-memory)
}
