// tcp::Connection: frames in and out over one socket. Knows no operation's rules.
#pragma once

#include <sys/uio.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/runtime/net.h"
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

// What leaves on a socket: queued frames go before the next segment; one segment at a time.
class Outbox {
 public:
  void queue(const Frame& frame);
  // A kData frame, of no length yet, and what it carries.
  void start(Frame frame, std::span<const std::span<const std::byte>> pieces);
  // Writes what the socket takes; `sent` is set when the segment has left.
  Flow write(int socket, uint64_t& moved_bytes, std::optional<Sending>& sent);
  void clear();
  // The segment that has not left completely, if there is one.
  std::optional<Sending> sending() const;
  // Sends nothing more of it. False: a part of it has left.
  bool drop_segment();

 private:
  std::size_t gather(std::span<iovec> batch) const;
  void advance(std::size_t count);

  std::string queued_;  // frames
  std::size_t queued_sent_ = 0;
  std::vector<iovec> parts_;  // of the segment, header first; empty: none
  std::size_t part_ = 0;      // the first that has not left completely
  bool has_begun_segment_ = false;
  FrameBytes header_ = {};
  Sending sending_;
};

// What arrives: alternately a header and the payload that it announces. One read takes what there
// is: large payloads straight to their places, all else through a buffer.
class Inbox {
 public:
  // One read of the socket. kDone: something came, and there may be more; kBlocked: that was all.
  Flow read(int socket, uint64_t& moved_bytes);
  // A payload is expected or under way.
  bool has_payload() const { return has_payload_; }
  const Arriving& arriving() const { return arriving_; }
  // The next header, once it is here; not while has_payload().
  std::optional<FrameBytes> take_header();
  // What the payload of the header just taken is, and where it goes; or that it goes nowhere.
  void expect(const Arriving& arriving);
  void skip(std::size_t bytes) { skipped_ = bytes; }
  // The payload, once it is here.
  std::optional<Arriving> take_payload();

 private:
  void absorb();

  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer
  bool has_payload_ = false;
  std::size_t received_ = 0;  // of the payload
  std::size_t skipped_ = 0;   // bytes that are to come before the next header
  Arriving arriving_;
};

class Connection {
 public:
  bool has_socket() const { return socket_.is_open(); }
  bool is_lost() const { return lost_reason_ != nullptr; }
  // A literal; null: it is not lost.
  const char* lost_reason() const { return lost_reason_; }
  int socket() const { return socket_.get(); }
  void adopt(Descriptor socket) { socket_ = std::move(socket); }
  // For good, for a reason that is a literal; the first one stays.
  void close(const char* reason);
  // Whether what epoll reports must change; starts as watched for both.
  bool set_watching_out(bool watching);

  Outbox& out() { return out_; }
  Inbox& in() { return in_; }
  // As those of the two, adding what they move to a counter.
  Flow write(uint64_t& moved_bytes, std::optional<Sending>& sent) {
    return out_.write(socket_.get(), moved_bytes, sent);
  }
  Flow read(uint64_t& moved_bytes) { return in_.read(socket_.get(), moved_bytes); }

 private:
  Descriptor socket_;
  const char* lost_reason_ = nullptr;
  bool is_watching_out_ = true;
  Outbox out_;
  Inbox in_;
};

}  // namespace pleach::tcp
