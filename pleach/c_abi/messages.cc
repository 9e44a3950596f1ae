#include "pleach/runtime/messages.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "pleach/base/index.h"
#include "pleach/c_abi/call.h"

using pleach::Messages;
using pleach::Rank;
using pleach::Received;
using pleach::Status;
using pleach::c_abi::call;
using pleach::c_abi::hand_over;

namespace {

// Errors: kInvalidArgument: negative; NULL and not empty.
Status check_memory(const char* function, const void* memory, int64_t bytes) {
  if (bytes < 0) {
    return pleach::invalid(fmt::format("{}: {} bytes are less than none", function, bytes));
  }
  return bytes == 0 || memory != nullptr
             ? pleach::ok()
             : Status(pleach::invalid(fmt::format("{}: {} bytes at NULL", function, bytes)));
}

pleach_received as_told(const Received& received) {
  return {.bytes = received.bytes, .source = received.source.value, .reserved = 0};
}

}  // namespace

pleach_status pleach_send(pleach_communicator* communicator, const void* message, int64_t bytes,
                          int32_t target, int32_t tag, pleach_operation** operation) {
  constexpr const char* kName = "pleach_send";
  return call(kName, {{communicator, "communicator"}}, [&]() -> Status {
    if (operation != nullptr) {
      *operation = nullptr;
    }
    PLEACH_TRY(check_memory(kName, message, bytes));
    Messages& messages = communicator->collectives->communicator().messages();
    const std::span sent(static_cast<const std::byte*>(message), pleach::at(bytes));
    return operation == nullptr ? messages.blocking_send(Rank{target}, tag, sent)
                                : hand_over(messages.send(Rank{target}, tag, sent), operation);
  });
}

pleach_status pleach_receive(pleach_communicator* communicator, void* buffer, int64_t bytes,
                             int32_t source, int32_t tag, pleach_received* received,
                             pleach_operation** operation) {
  constexpr const char* kName = "pleach_receive";
  return call(kName, {{communicator, "communicator"}}, [&]() -> Status {
    if (operation != nullptr) {
      *operation = nullptr;
    }
    PLEACH_TRY(check_memory(kName, buffer, bytes));
    Messages& messages = communicator->collectives->communicator().messages();
    const std::span memory(static_cast<std::byte*>(buffer), pleach::at(bytes));
    const bool is_any = source == PLEACH_ANY_RANK;
    if (operation != nullptr) {
      return hand_over(
          is_any ? messages.receive_any(tag, memory) : messages.receive(Rank{source}, tag, memory),
          operation);
    }
    PLEACH_ASSIGN(come, is_any ? messages.blocking_receive_any(tag, memory)
                               : messages.blocking_receive(Rank{source}, tag, memory));
    if (received != nullptr) {
      *received = as_told(come);
    }
    return pleach::ok();
  });
}

pleach_status pleach_operation_received(pleach_operation* operation, pleach_received* received) {
  return call("pleach_operation_received", {{operation, "operation"}, {received, "received"}}, [&] {
    *received = as_told(operation->operation.received());
    return pleach::ok();
  });
}
