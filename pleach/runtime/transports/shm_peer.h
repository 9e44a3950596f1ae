// What a rank keeps of its own channels, and of each rank that it shares memory with.
#pragma once

#include <sys/types.h>

#include <algorithm>
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

// Tells the others the nonce of this rank's socket, at which they find it.
Status publish_listener(const TransportContext& context, uint64_t nonce);
// Errors: kUnsupported: the rank is on another host; kIo: it published no such thing; the store's.
Result<uint64_t> find_listener(const TransportContext& context, Rank rank);

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
  // `memory`: the areas of all ranks; this rank is one of so many. Borrows the peer's entry.
  PeerChannel(const ChannelOptions& options, const ChannelEntry& entry,
              std::shared_ptr<std::byte> memory, Rank rank, int32_t rank_count);

  uint64_t number() const { return options_.number; }
  bool has_place() const { return !free_.empty(); }
  // Whether what the peer lends is as it was when it lent it.
  bool is_sound() const { return entry_->find(number()) && entry_->is_given_up.load() == 0; }
  // There is one. Of what is lent 0 bytes lie there.
  int32_t take(const SegmentTag& tag, int64_t bytes);
  int64_t offset(int32_t place) const { return in_[at(place)]->begin; }
  std::byte* begin(int32_t place) { return area_ + offset(place); }
  // Whose place it was. Nothing: nobody's.
  std::optional<SegmentTag> release(int32_t place);

 private:
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

// How fast segments are copied to a peer's memory. Where cores share a cache that takes less time
// than the system call that reads across processes; where they share none, several times as much.
class CopySpeed {
 public:
  void note(int64_t bytes, Duration took) {
    slow_ = took.count() > bytes / kBytesPerNs ? std::min(slow_ + 1, kEnough) : 0;
  }
  // Whether the last copies were slow; now and then not, so that another is timed.
  bool is_slow() { return slow_ == kEnough && ++asked_ % kPeriod != 0; }

 private:
  static constexpr int64_t kBytesPerNs = 4;
  static constexpr int32_t kEnough = 4;
  static constexpr uint32_t kPeriod = 64;
  int32_t slow_ = 0;  // copies in a row
  uint32_t asked_ = 0;
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
  CopySpeed copies;          // what else there is
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
  Reads reads;
  const char* lost_reason = nullptr;

  bool is_lost() const { return lost_reason != nullptr; }
  PeerChannel* find_channel(uint64_t number);
  // Null: it has not opened the channel, or no more.
  //   rank  this one, of so many
  PeerChannel* open_channel(const ChannelOptions& options, Rank rank, int32_t rank_count);
  // Writes a segment's pieces, so many bytes, to its place.
  void copy(std::span<const std::span<const std::byte>> pieces, std::byte* to, int64_t bytes,
            const Clock& clock);
  // Whether to read the segment itself takes it less time.
  bool prefers_to_read(const ChannelOptions& channel, int64_t bytes);
  // Where the payload of kLend lies, in a region. Null: nowhere.
  std::shared_ptr<std::byte> find_lent(const Message& message);
};

}  // namespace pleach::shm
