#include "pleach/runtime/messages.h"

#include <fmt/format.h>

#include <cstddef>
#include <span>

#include "pleach/base/index.h"
#include "pleach/c_abi/call.h"

using pleach::MessageOptions;
using pleach::Messages;
using pleach::Rank;
using pleach::Received;
using pleach::Result;
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

Result<MessageOptions> understand(const char* function, const pleach_message_options* options) {
  PLEACH_ASSIGN(given, pleach::c_abi::complete(options, "pleach_message_options"));
  MessageOptions understood;
  if (given.deadline_ms != 0) {
    PLEACH_SET(understood.deadline, pleach::c_abi::timeout(function, given.deadline_ms));
  }
  return understood;
}

// A message as it is asked for: its memory, the other rank, and the handle that is wanted.
struct Asked {
  const char* function;
  pleach_communicator* communicator;
  void* memory;
  int64_t bytes;
  int32_t peer;
  int32_t tag;
  const pleach_message_options* options;
  pleach_operation** operation;
};

// Calls the body with the messages of the communicator, the memory and the options.
template <typename Body>
pleach_status perform(const Asked& asked, const Body& body) {
  return call(asked.function, {{asked.communicator, "communicator"}}, [&]() -> Status {
    if (asked.operation != nullptr) {
      *asked.operation = nullptr;
    }
    PLEACH_TRY(check_memory(asked.function, asked.memory, asked.bytes));
    PLEACH_ASSIGN(options, understand(asked.function, asked.options));
    return body(asked.communicator->collectives->communicator().messages(),
                std::span(static_cast<std::byte*>(asked.memory), pleach::at(asked.bytes)), options);
  });
}

pleach_status send(const Asked& asked) {
  return perform(asked, [&](Messages& messages, std::span<const std::byte> message,
                            const MessageOptions& options) {
    const Rank target{asked.peer};
    return asked.operation == nullptr
               ? messages.blocking_send(target, asked.tag, message, options)
               : hand_over(messages.send(target, asked.tag, message, options), asked.operation);
  });
}

pleach_status receive(const Asked& asked, pleach_received* received) {
  const auto body = [&](Messages& messages, std::span<std::byte> memory,
                        const MessageOptions& options) -> Status {
    const Rank source{asked.peer};
    const bool is_any = asked.peer == PLEACH_ANY_RANK;
    if (asked.operation != nullptr) {
      return hand_over(is_any ? messages.receive_any(asked.tag, memory, options)
                              : messages.receive(source, asked.tag, memory, options),
                       asked.operation);
    }
    PLEACH_ASSIGN(come, is_any ? messages.blocking_receive_any(asked.tag, memory, options)
                               : messages.blocking_receive(source, asked.tag, memory, options));
    if (received != nullptr) {
      *received = as_told(come);
    }
    return pleach::ok();
  };
  return perform(asked, body);
}

// Only read.
void* memory_of(const void* message) {
  return const_cast<void*>(message);
}

}  // namespace

pleach_status pleach_send(pleach_communicator* communicator, const void* message, int64_t bytes,
                          int32_t target, int32_t tag, pleach_operation** operation) {
  return send(
      {"pleach_send", communicator, memory_of(message), bytes, target, tag, nullptr, operation});
}

pleach_status pleach_send_with(pleach_communicator* communicator, const void* message,
                               int64_t bytes, int32_t target, int32_t tag,
                               const pleach_message_options* options,
                               pleach_operation** operation) {
  return send({"pleach_send_with", communicator, memory_of(message), bytes, target, tag, options,
               operation});
}

pleach_status pleach_receive(pleach_communicator* communicator, void* buffer, int64_t bytes,
                             int32_t source, int32_t tag, pleach_received* received,
                             pleach_operation** operation) {
  return receive({"pleach_receive", communicator, buffer, bytes, source, tag, nullptr, operation},
                 received);
}

pleach_status pleach_receive_with(pleach_communicator* communicator, void* buffer, int64_t bytes,
                                  int32_t source, int32_t tag,
                                  const pleach_message_options* options, pleach_received* received,
                                  pleach_operation** operation) {
  return receive(
      {"pleach_receive_with", communicator, buffer, bytes, source, tag, options, operation},
      received);
}

pleach_status pleach_operation_received(pleach_operation* operation, pleach_received* received) {
  return call("pleach_operation_received", {{operation, "operation"}, {received, "received"}}, [&] {
    *received = as_told(operation->operation.received());
    return pleach::ok();
  });
}
