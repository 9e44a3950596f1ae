// What a rank keeps of its own channels, and of each rank that it shares memory with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/shared_memory.h"
#include "pleach/runtime/transports/shm_layout.h"
#include "pleach/runtime/transports/shm_regions.h"

namespace pleach::shm {

// What lies in a place of this rank.
struct Held {
  bool is_taken = false;
  std::shared_ptr<std::byte> lent = nullptr;  // the peer's memory, which stays mapped meanwhile
};

// Where a rank publishes the socket at which the others find it.
inline std::string address_key(const TransportContext& context, Rank rank) {
  return context.key_prefix + "/shm/" + std::to_string(rank.value);
}

// A channel's places of this rank.
struct OwnChannel {
  ChannelOptions options;
  int64_t offset = 0;
  std::shared_ptr<std::byte> memory = nullptr;
  std::vector<Held> held = {};      // by peer and place
  std::vector<uint64_t> owed = {};  // by peer: free places that it has not been told of, a bit each
  std::size_t entry = 0;            // of the control block
};

// A channel's places at a peer that are this rank's to fill.
struct PeerChannel {
  uint64_t number = 0;
  int32_t places = 0;
  int64_t place_bytes = 0;
  std::shared_ptr<std::byte> memory = nullptr;
  std::byte* first = nullptr;                      // place
  std::vector<int32_t> free = {};                  // the last is next: it may be in the cache
  std::vector<std::optional<SegmentTag>> in = {};  // by place: what lies there

  int32_t take(const SegmentTag& tag) {
    const int32_t place = free.back();
    free.pop_back();
    in[at(place)] = tag;
    return place;
  }
};

// A segment that waits for the peer's memory.
struct Pending {
  Message message;
  std::vector<std::span<const std::byte>> pieces;
};

// What waits: messages for room in the peer's ring, or for its memory; a segment for its memory.
struct Backlog {
  std::deque<Message> messages;
  std::optional<Pending> segment;
};

struct Peer {
  Descriptor socket;  // brings regions, and shows when the peer leaves
  Descriptor bell;    // wakes it
  SharedMemory memory;
  std::shared_ptr<std::byte> shared;  // its control block and rings; null: not yet
  Writer out;
  Reader in;
  Backlog backlog;
  std::vector<PeerChannel> channels;
  RegionExchange regions;
  const char* lost_reason = nullptr;

  bool is_lost() const { return lost_reason != nullptr; }
  // Where the payload of kLend lies. Null: nowhere.
  std::shared_ptr<std::byte> find_lent(const Message& message) {
    if (auto known =
            regions.find(message.region, static_cast<int64_t>(message.word), message.length)) {
      return known;
    }
    // If it has left since, its socket still says so.
    static_cast<void>(regions.take_offers(socket.get()));
    return regions.find(message.region, static_cast<int64_t>(message.word), message.length);
  }
};

}  // namespace pleach::shm
