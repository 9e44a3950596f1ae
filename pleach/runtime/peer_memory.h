// Peer memory: buffers that the other ranks of a host may read where they stand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "pleach/base/result.h"
#include "pleach/runtime/transports/shared_memory.h"

namespace pleach {

// One allocation.
struct PeerRegion {
  uint32_t number = 0;  // of this process: 1, 2, ...; none is used again
  int64_t bytes = 0;
  SharedMemory memory;
  std::shared_ptr<std::byte> mapping;
};

// Zeros, at a page. What a collective sends from there is not copied, where transport and schedule
// permit that: its target reads it. Freed with the last reference, which should not go before the
// operations that use it are done. Any thread.
//   errors  kInvalidArgument: bytes < 1; kIo: there is no memory
//   cost    a file descriptor each, and microseconds a page when it is first touched: allocate once
Result<std::shared_ptr<std::byte>> allocate_peer_memory(int64_t bytes);

// The same, freed by hand.
Result<std::byte*> new_peer_memory(int64_t bytes);
// Errors: kInvalidArgument: no such memory begins there (any more); nothing has happened.
Status free_peer_memory(std::byte* memory);

// The region that all of the bytes lie in; null: none. Any thread.
std::shared_ptr<const PeerRegion> find_peer_region(std::span<const std::byte> bytes);
// Counts the regions that have been freed.
uint64_t freed_peer_regions();

}  // namespace pleach
