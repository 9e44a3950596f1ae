// What a rank keeps of its own channels, and of each rank that it shares memory with.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/shared_memory.h"
#include "pleach/runtime/transports/shm_layout.h"
#include "pleach/runtime/transports/shm_regions.h"

namespace pleach::shm {

// What lies in a place of this rank.
struct Held {
  bool is_taken = false;
  bool is_lent = false;
  std::shared_ptr<std::byte> lent = nullptr;  // the peer's memory, which stays mapped meanwhile
};

// The nonce in a rank's address, which is "NONCE HOST", as this rank's own is.
//   errors  kUnsupported: it is on another host; kIo: that is no address
Result<uint64_t> read_address(std::string_view own, Rank self, std::string_view address, Rank rank);

// A channel's places of this rank.
struct OwnChannel {
  ChannelOptions options;
  int64_t offset = 0;
  std::shared_ptr<std::byte> memory = nullptr;
  std::vector<Held> held = {};      // by peer and place
  std::vector<uint64_t> owed = {};  // by peer: free places that it has not been told of, a bit each
  std::size_t entry = 0;            // of the control block
};

// A channel's area at a peer that is this rank's to fill.
class PeerChannel {
 public:
  // What holds a place, and the bytes of the area that it takes.
  struct Segment {
    SegmentTag tag;
    int64_t begin = 0;
    int64_t end = 0;
  };
  // `memory`: the areas of all ranks; this rank is one of so many on the host, at least 2. Borrows
  // the peer's entry.
  PeerChannel(const ChannelOptions& options, const ChannelEntry& entry,
              std::shared_ptr<std::byte> memory, Rank rank, int32_t rank_count);

  uint64_t number() const { return options_.number; }
  bool has_place() const { return !free_.empty(); }
  // Whether what the peer lends is as it was when it lent it.
  bool is_sound() const { return entry_->find(number()) && entry_->is_given_up.load() == 0; }
  // There is one. Of what is lent 0 bytes lie there.
  int32_t take(const SegmentTag& tag, int64_t bytes) {
    const int32_t place = free_.back();
    free_.pop_back();
    const int64_t begin =
        bytes < kLeastRotated ? slot_bytes(options_) * place : take_rotating(bytes);
    in_[at(place)] = Segment{tag, begin, begin + stride(bytes)};
    return place;
  }
  int64_t offset(int32_t place) const { return in_[at(place)]->begin; }
  std::byte* begin(int32_t place) { return area_ + offset(place); }
  // Whose place it was. Nothing: nobody's.
  std::optional<SegmentTag> release(int32_t place);

 private:
  int64_t take_rotating(int64_t bytes);
  int64_t find_room(int64_t bytes, int64_t room);
  void populate();

  ChannelOptions options_;
  const ChannelEntry* entry_;
  std::shared_ptr<std::byte> memory_;
  std::byte* area_;
  std::vector<int32_t> free_;               // the last is next
  std::vector<std::optional<Segment>> in_;  // by place
  int64_t rotates_;                         // over so many bytes, if it can
  int64_t next_ = -1;                       // byte of what rotates; -1: none has been there yet
};

// How far the peers' cores are, by how long it takes to write to a line that one of them has read
// last: where they share a cache, or ranks a core, half as long as where they share none. What was
// written to one cache is read from another, then, and what others have in theirs is written,
// several times as slowly as memory is.
class Distance {
 public:
  // Whether to time the next write: a clock takes as long.
  bool is_due() { return ++writes_ % kPeriod == 0; }
  // What was written before is not of the time that follows.
  void settle() { settled_.exchange(0); }
  void note(Duration took) {
    far_share_ += ((took.count() > kNearNs ? kWhole : 0) - far_share_) / kWeight;
  }
  // Of ranks that share cores, not all are.
  bool is_far() const { return far_share_ > kWhole / 4; }

 private:
  static constexpr uint32_t kPeriod = 13;
  static constexpr int64_t kNearNs = 105;
  static constexpr int32_t kWhole = 1024;
  static constexpr int32_t kWeight = 16;  // writes that count, about
  uint32_t writes_ = 0;
  int32_t far_share_ = 0;
  std::atomic<uint32_t> settled_ = 0;
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

// What this rank and the peer may read of each other.
struct Reads {
  RegionExchange regions;
  pid_t process = 0;         // the peer's
  bool is_readable = false;  // all its memory, by this rank
  bool reads_this = false;   // rank's memory, the peer
};

// Writes a segment to its place, past the caches where who reads it is far.
void copy_pieces(std::span<const std::span<const std::byte>> pieces, std::byte* to, bool is_far);

struct Peer {
  Descriptor socket;  // brings regions, wakes either end, and shows when the peer leaves
  SharedMemory memory;
  std::shared_ptr<std::byte> shared;  // its control block and rings; null: not yet
  Writer out;
  Reader in;
  std::optional<uint64_t> nonce = {};  // of its socket, once it is introduced
  Backlog backlog;
  std::vector<PeerChannel> channels;
  Reads reads;
  const char* lost_reason = nullptr;

  bool is_lost() const { return lost_reason != nullptr; }
  PeerChannel* find_channel(uint64_t number) {
    for (PeerChannel& channel : channels) {
      if (channel.number() == number) {
        return &channel;
      }
    }
    return nullptr;
  }
  // Takes the memory that the peer has sent. False: that is none, or this process has no room.
  //   context  this rank's
  //   lack     set where this process has no room
  bool adopt(std::vector<Descriptor> brought, const TransportContext& context,
             std::optional<Error>& lack);
  // Null: it has not opened the channel, or no more, or this process has no room.
  PeerChannel* open_channel(const ChannelOptions& options, const TransportContext& context,
                            std::optional<Error>& lack);
  // Writes to its ring, which has room.
  void put(const Message& message, Distance& distance, const Clock& clock) {
    if (distance.is_due()) {
      put_timed(message, distance, clock);
    } else {
      out.put(message);
    }
  }
  void put_timed(const Message& message, Distance& distance, const Clock& clock);
  // Whether it takes less time that it reads a segment of ordinary memory than that this rank
  // copies it.
  //   is_alone  on its core, and far from this one's
  bool prefers_to_read(const ChannelOptions& channel, std::span<const std::byte> bytes,
                       bool is_alone) const;
  // Where the payload of kLend lies, in a region. Null: nowhere.
  std::shared_ptr<std::byte> find_lent(const Message& message);
};

}  // namespace pleach::shm
