// What a rank shares with the others of its host: rings of messages to it, and where its channels'
// places are. All of it is written by other processes: nothing that is read here may be trusted.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/runtime/transport.h"

namespace pleach::shm {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share atomics");

// What two ranks say first to each other, with their memory.
struct Hello {
  uint64_t magic = 0x0a33'4d48'5350'4c50;  // "PLPSHM3\n"
  int32_t rank = 0;
  int32_t rank_count = 0;
  // A word of its own memory, and where it stands: who reads it there may read the rest.
  uint64_t probe = 0;
  uint64_t probe_address = 0;
};
// Where a rank listens.
inline std::string socket_name(uint64_t nonce) {
  return "pleach-" + std::to_string(nonce);
}

inline constexpr std::size_t kLine = 64;  // bytes of a cache line

enum class Kind : uint32_t {
  kBegin = 1,
  kData = 2,
  kRelease = 3,
  kLend = 4,      // as kData, but the payload stays in a region of the sender's, or (0) its memory
  kRead = 5,      // a chunk of what was lent has been read
  kForget = 6,    // no message refers to the region any more
  kReadable = 7,  // the writer can read the reader's memory
};

struct Message {
  Kind kind = Kind::kBegin;
  int32_t place = 0;  // kData, kLend: the one that is taken; kRead: which chunk
  uint64_t channel = 0;
  uint64_t operation = 0;
  uint64_t fingerprint = 0;
  uint32_t length = 0;  // kData, kLend
  uint32_t region = 0;  // kLend, kForget; kData: the line of the area where the payload begins
  // kLend: the offset in the region, or the address; kData, kRelease: the places that are free
  // again, a bit each
  uint64_t word = 0;
  int32_t stream = 0;
  int32_t segment = 0;

  SegmentTag tag() const { return {operation, stream, segment}; }
};

// A ring of messages from one writer to one reader.
struct Ring {
  static constexpr uint64_t kCells = 128;
  struct alignas(kLine) Cell {
    std::atomic<uint64_t> turn;  // message t of the ring is here once this is t + 1
    Message message;
  };
  static_assert(sizeof(Cell) == kLine, "a message costs one cache line");

  alignas(kLine) std::atomic<uint64_t> taken;  // messages that the reader is done with
  std::array<Cell, kCells> cells;
};

class Writer {
 public:
  Writer() = default;
  explicit Writer(Ring& ring) : ring_(&ring) {}
  bool has_room() {
    if (next_ - taken_ == Ring::kCells) {
      taken_ = ring_->taken.load(std::memory_order_acquire);
    }
    return next_ - taken_ < Ring::kCells;
  }
  // There is room. Who then sees that the reader is not asleep knows that it will see the message:
  // both write before they read, in one order for all (the default of std::atomic).
  void put(const Message& message) {
    Ring::Cell& cell = ring_->cells[next_ % Ring::kCells];
    cell.message = message;
    cell.turn.store(++next_);
  }

 private:
  Ring* ring_ = nullptr;
  uint64_t next_ = 0;
  uint64_t taken_ = 0;  // as seen last
};

class Reader {
 public:
  Reader() = default;
  explicit Reader(Ring& ring) : ring_(&ring) {}
  bool has_message() const { return ring_->cells[next_ % Ring::kCells].turn.load() == next_ + 1; }
  // The next message, if it is here: a copy, which no peer can change any more.
  std::optional<Message> take() {
    if (!has_message()) {
      return std::nullopt;
    }
    return ring_->cells[next_++ % Ring::kCells].message;
  }
  // Gives the cells of what was taken back.
  void finish() { ring_->taken.store(next_, std::memory_order_release); }

 private:
  Ring* ring_ = nullptr;
  uint64_t next_ = 0;
};

// Where a channel's areas are in the rank's memory: for each rank in turn, area_bytes(). An entry
// is reused, so its version is read before and after.
struct ChannelEntry {
  std::atomic<uint64_t> version;  // odd: the channel is open
  std::atomic<uint64_t> number;
  std::atomic<int64_t> offset;
  std::atomic<uint32_t> is_given_up;  // its operations have failed: what was lent may change

  bool is_open() const { return version.load() % 2 == 1; }
  void open(uint64_t channel, int64_t begin) {
    number.store(channel);
    offset.store(begin);
    is_given_up.store(0);
    version.fetch_add(1);
  }
  void close() { version.fetch_add(1); }
  // Its offset, if it is of that channel.
  std::optional<int64_t> find(uint64_t channel) const {
    const uint64_t before = version.load();
    const bool is_it = before % 2 == 1 && number.load() == channel;
    const int64_t begin = offset.load();
    return is_it && version.load() == before ? std::optional(begin) : std::nullopt;
  }
};
inline constexpr std::size_t kMostChannels = 1024;

struct Control {
  // The rank sleeps, or is about to: who has a message for it rings it awake.
  alignas(kLine) std::atomic<uint32_t> is_asleep;
  alignas(kLine) std::array<ChannelEntry, kMostChannels> channels;
};

// The memory of a rank: its control block, then the ring of each rank that sends to it, then the
// areas of its channels.
inline int64_t control_bytes(int32_t rank_count) {
  return static_cast<int64_t>(sizeof(Control) + sizeof(Ring) * at(rank_count));
}
inline Control& control_in(std::byte* memory) {
  return *reinterpret_cast<Control*>(memory);
}
inline Ring& ring_in(std::byte* memory, Rank from) {
  return reinterpret_cast<Ring*>(memory + sizeof(Control))[from.index()];
}

// Whole lines.
inline int64_t stride(int64_t bytes) {
  constexpr auto kTo = static_cast<int64_t>(kLine);
  return (bytes + kTo - 1) / kTo * kTo;
}
// An area holds what one rank sends to another on a channel. A small segment goes to the slot of
// its landing place, which is in the writer's cache, the last one first. A larger one goes where
// none has been for long: lines that the reader still has in its own cache are written four times
// as slowly as those that it has let go.
inline constexpr int64_t kLeastRotated = int64_t{16} * 1024;
inline int64_t slot_bytes(const ChannelOptions& channel) {
  return std::min(kLeastRotated, stride(channel.place_bytes));
}
// Of what rotates. Twice the places: whichever of them are taken, a gap between them is as large as
// the largest segment.
inline int64_t ring_bytes(const ChannelOptions& channel) {
  return int64_t{2} * channel.places * stride(channel.place_bytes);
}
inline int64_t area_bytes(const ChannelOptions& channel) {
  return channel.places * slot_bytes(channel) + ring_bytes(channel);
}

}  // namespace pleach::shm
