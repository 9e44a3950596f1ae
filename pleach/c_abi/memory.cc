#include <fmt/format.h>

#include <cstddef>

#include "pleach/c_abi/call.h"
#include "pleach/runtime/peer_memory.h"

using pleach::Status;
using pleach::c_abi::call;

void* pleach_alloc(size_t bytes) {
  void* memory = nullptr;
  call("pleach_alloc", {}, [&]() -> Status {
    if (bytes > INT64_MAX) {
      return pleach::invalid(fmt::format("pleach_alloc: {} bytes are too many", bytes));
    }
    PLEACH_ASSIGN(allocated, pleach::new_peer_memory(static_cast<int64_t>(bytes)));
    memory = allocated;
    return pleach::ok();
  });
  return memory;
}

pleach_status pleach_free(void* memory) {
  return call("pleach_free", {}, [&] {
    return memory == nullptr ? pleach::ok()
                             : pleach::free_peer_memory(static_cast<std::byte*>(memory));
  });
}
