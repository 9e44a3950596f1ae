// The socket between two ranks of a host: memory of their own that they let each other read, and
// how one wakes the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/runtime/peer_memory.h"

namespace pleach::shm {

// Makes the peer's end of the socket readable, until it takes offers: wakes it. Nothing that the
// peer does to its end makes the caller wait.
void ring(int socket);

// What each of two ranks knows of the other's regions. They are told over the socket between them,
// with their descriptors, before any message refers to them. Used by one thread at a time.
class RegionExchange {
 public:
  // Tells the peer of a region of this process, once. False: it cannot know of it.
  bool tell_of(int socket, const std::shared_ptr<const PeerRegion>& region);
  // The numbers of those that it knew and that have been freed since.
  std::vector<uint32_t> take_freed();

  // Takes what the socket has brought, or so much of it that the peer's turn is over; what rang
  // too. False: the peer has left, or broke the protocol.
  bool take_offers(int socket);
  // Why an offer was lost: this process lacks a descriptor or an address for it. None: none was.
  const std::optional<Error>& lack() const { return lack_; }
  // Bytes of the peer's region, mapped while somebody holds them. Null: it has told of none such.
  std::shared_ptr<std::byte> find(uint32_t number, int64_t offset, int64_t bytes) const;
  void forget(uint32_t number);

 private:
  struct Told {
    uint32_t number = 0;
    std::weak_ptr<const PeerRegion> region;
  };
  struct Known {
    uint32_t number = 0;
    int64_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  std::vector<Told> told_;    // of this rank's
  std::vector<Known> known_;  // of the peer's
  std::optional<Error> lack_;
};

}  // namespace pleach::shm
