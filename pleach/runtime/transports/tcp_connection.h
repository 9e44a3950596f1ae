// tcp::Connection: frames in and out over the sockets of a pair. Knows no operation's rules.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/runtime/rendezvous/wire.h"
#include "pleach/runtime/transport.h"

namespace pleach::tcp {

static_assert(std::endian::native == std::endian::little, "frames travel in little-endian form");

enum class FrameKind : uint8_t { kBegin = 1, kData = 2, kRelease = 3 };

// A header; a kData frame's payload of `length` bytes follows.
struct Frame {
  FrameKind kind = FrameKind::kBegin;
  uint32_t length = 0;
  uint64_t channel = 0;
  uint64_t operation = 0;
  uint64_t fingerprint = 0;
  int32_t stream = 0;
  int32_t segment = 0;

  SegmentTag tag() const { return {operation, stream, segment}; }
};
using FrameBytes = std::array<std::byte, 40>;
FrameBytes write_frame(const Frame& frame);
// Empty: not a frame.
std::optional<Frame> parse_frame(const FrameBytes& bytes);

// How far reading or writing got: what there was is done, the socket takes or has no more, or it
// is gone.
enum class Flow : uint8_t { kDone, kBlocked, kLost };

// A segment that is on its way, and what of it goes where.
struct Sending {
  uint64_t channel = 0;
  SegmentTag tag;
};
struct Arriving {
  Frame frame;
  int32_t place = 0;
  std::span<std::byte> payload;
};

// A pair of ranks may have several sockets, *lanes*. Frames travel on the first, in order, and so
// does what a kData frame carries, unless that is large: then each lane has a part of it, and the
// parts of a lane travel in the order of their headers. So what arrives, arrives in the order in
// which it was sent, however many lanes there are.
struct Stripe {
  std::size_t begin = 0, end = 0;
};
// The part of a payload of so many bytes that travels on a lane.
Stripe stripe(std::size_t length, std::size_t lane, std::size_t lane_count);

// Memory that leaves on a socket, piece by piece.
class Pieces {
 public:
  void add(std::span<const std::byte> bytes);
  void clear();
  bool is_empty() const { return next_ == pieces_.size(); }
  bool has_begun() const { return has_begun_; }
  bool is_under_way() const { return has_begun_ && !is_empty(); }
  // Appends what is to be written to those of `batch` that are used; returns how many are.
  std::size_t gather(std::span<iovec> batch, std::size_t used) const;
  void advance(std::size_t count);
  // Copies the part that has not left: the memory may change then.
  void own();

 private:
  std::vector<std::byte> copy_;
  std::vector<iovec> pieces_;
  std::size_t next_ = 0;  // the first that has not left completely
  bool has_begun_ = false;
};

// What leaves: queued frames go before the next segment; one segment at a time.
class Outbox {
 public:
  void queue(const Frame& frame);
  // A kData frame, of no length yet, and what it carries.
  void start(Frame frame, std::span<const std::span<const std::byte>> pieces,
             std::size_t lane_count);
  // Writes what the sockets take; `sent` is set when the segment has left. Not kDone: the first
  // lane is blocked, or one is gone.
  Flow write(std::span<Wire> lanes, uint64_t& moved_bytes, std::optional<Sending>& sent);
  void clear();
  // Whether the first lane takes no more for now, or is not there yet.
  bool is_blocked() const { return is_blocked_; }
  // The segment that has not left completely, if there is one.
  const std::optional<Sending>& sending() const { return sending_; }
  // Its memory may change then: what is still to leave is copied. True: nothing had left of it, and
  // nothing will.
  bool release_memory();

 private:
  void drop_segment();
  std::size_t gather(std::span<iovec> batch, std::size_t lane) const;
  void advance(std::size_t count, std::size_t lane);
  Flow write_lane(Wire& wire, std::size_t lane, uint64_t& moved_bytes);

  std::string queued_;  // frames
  std::size_t queued_sent_ = 0;
  std::vector<Pieces> parts_ = std::vector<Pieces>(1);  // of the segment, by lane
  FrameBytes header_ = {};
  std::optional<Sending> sending_;
  bool is_blocked_ = true;
};

// What arrives: alternately a header and the payload that it announces. One read takes what there
// is: large payloads straight to their places, all else through a buffer.
class Inbox {
 public:
  // Whether there is room for what the first lane brings. None: there are other lanes' parts to
  // wait for, and much has come behind its own.
  bool has_room() const;
  // One read of the first lane. kDone: something came, and there may be more; kBlocked: that was
  // all.
  Flow read(Wire& wire, uint64_t& moved_bytes);
  // Reads the other lanes' parts of a payload. kBlocked: some are to come.
  Flow read_parts(std::span<Wire> lanes, uint64_t& moved_bytes);
  // A payload is expected or under way.
  bool has_payload() const { return has_payload_; }
  const Arriving& arriving() const { return arriving_; }
  // The next header, once it and what is to be skipped before it is here; not while has_payload().
  std::optional<FrameBytes> take_header();
  // What the payload of the header just taken is, and where it goes; or that it goes nowhere.
  void expect(const Arriving& arriving, std::size_t lane_count);
  void skip(std::size_t bytes, std::size_t lane_count);
  // Lets the part of the payload that is still to come go nowhere.
  void drop_payload();
  // The payload, once it is here.
  std::optional<Arriving> take_payload();

 private:
  // Of a payload, on another lane than the first.
  struct Part {
    std::byte* to = nullptr;  // null: nowhere
    std::size_t left = 0;
  };
  bool has_all_parts() const;
  void absorb();

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer
  bool has_payload_ = false;
  std::span<std::byte> own_;  // the first lane's part of the payload
  std::size_t received_ = 0;  // of it
  std::size_t skipped_ = 0;   // bytes that are to come before the next header
  std::vector<Part> parts_;   // of the other lanes, from the second on
  Arriving arriving_;
};

class Connection {
 public:
  // It has all of its sockets.
  bool is_open() const { return is_open_; }
  bool is_lost() const { return lost_reason_ != nullptr; }
  std::span<const Wire> lanes() const { return lanes_; }
  // Something that is to be written waits until somebody reads.
  bool waits_to_read() const { return std::ranges::any_of(lanes_, &Wire::waits_to_read); }
  // One of the lanes, whose number is `lane_count` in the end. False: it has that one.
  bool adopt(Wire wire, std::size_t lane, std::size_t lane_count);
  // For good, for a reason that is a literal; the first one stays.
  void close(const char* reason);
  // Whether what epoll reports of the first lane must change.
  bool set_watched(uint32_t events);

  Outbox& out() { return out_; }
  Inbox& in() { return in_; }
  // As those of the two, adding what they move to a counter.
  Flow write(uint64_t& moved_bytes, std::optional<Sending>& sent) {
    return out_.write(lanes_, moved_bytes, sent);
  }
  Flow read(uint64_t& moved_bytes) { return in_.read(lanes_[0], moved_bytes); }
  Flow read_parts(uint64_t& moved_bytes) { return in_.read_parts(lanes_, moved_bytes); }

 private:
  std::vector<Wire> lanes_;
  bool is_open_ = false;
  const char* lost_reason_ = nullptr;  // a literal; null: it is not lost
  uint32_t watched_ = 0;
  Outbox out_;
  Inbox in_;
};

}  // namespace pleach::tcp
