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

// What a rank says first on a connection that it opened.
struct Hello {
  uint64_t nonce = 0;  // as the listening rank published it
  int32_t rank = 0;
};
using HelloBytes = std::array<std::byte, 24>;
HelloBytes write_hello(const Hello& hello);
std::optional<Hello> parse_hello(const HelloBytes& bytes);

enum class FrameKind : uint8_t { kBegin = 1, kData = 2, kRelease = 3 };

// A header; a kData frame's payload of `length` bytes follows.
struct Frame {
  FrameKind kind = FrameKind::kBegin;
  int32_t place = 0;
  uint64_t sequence = 0;
  uint64_t value = 0;
  int32_t stream = 0;
  int32_t segment = 0;
  uint64_t length = 0;
};
using FrameBytes = std::array<std::byte, 40>;
FrameBytes write_frame(const Frame& frame);
// Empty: not a frame.
std::optional<Frame> parse_frame(const FrameBytes& bytes);

enum class Progress : uint8_t { kDone, kBlocked, kLost };

struct Arrived {
  SegmentTag tag;
  int32_t place = 0;
  std::span<std::byte> payload;
};

// What leaves on a socket: queued frames go before the next segment; one segment at a time.
class Outbox {
 public:
  void queue(const Frame& frame);
  // Before all that is queued.
  void queue_first(const Hello& hello);
  void start(uint64_t sequence, SegmentTag tag, std::span<const std::span<const std::byte>> pieces);
  // Writes what the socket takes; `sent` is set when the segment has left.
  Progress write(int socket, uint64_t& moved_bytes, std::optional<SegmentTag>& sent);
  void clear();

 private:
  std::size_t gather(std::span<iovec> batch) const;
  void advance(std::size_t count);

  std::string queued_;  // frames
  std::size_t queued_sent_ = 0;
  std::vector<iovec> parts_;  // of the segment, header first; empty: none
  std::size_t part_ = 0;      // the first that has not left completely
  bool has_begun_segment_ = false;
  FrameBytes header_ = {};
  SegmentTag tag_;
};

// What arrives: alternately a header and the payload that it announces, in landing memory.
class Inbox {
 public:
  // Precondition: !has_payload(), which would lose its place.
  void make_room(int32_t places, int64_t place_bytes);
  // Reads until the header, or the payload, is complete.
  Progress read(int socket, uint64_t& moved_bytes);
  bool has_payload() const { return has_payload_; }
  std::optional<Frame> take_header();
  void expect(int32_t place, const Frame& frame);
  bool payload_is_complete() const { return has_payload_ && received_ == arriving_.payload.size(); }
  Arrived take_payload();

 private:
  FrameBytes header_ = {};
  std::size_t received_ = 0;  // of the header or payload
  bool has_payload_ = false;
  Arrived arriving_;
  std::unique_ptr<std::byte[]> memory_;
  std::size_t memory_bytes_ = 0;
  std::size_t stride_ = 0;  // between places
};

class Connection {
 public:
  bool has_socket() const { return socket_.is_open(); }
  bool is_connecting() const { return is_connecting_; }
  bool is_lost() const { return lost_reason_ != nullptr; }
  // A literal; null: it is not lost.
  const char* lost_reason() const { return lost_reason_; }
  int socket() const { return socket_.get(); }
  void adopt(Descriptor socket) { socket_ = std::move(socket); }
  // Puts the hello before all that is queued, and waits for the connect to end.
  void say_hello(const Hello& hello);
  void finish_connecting() { is_connecting_ = false; }
  // For good, for a reason that is a literal; the first one stays.
  void close(const char* reason);
  // Whether what epoll reports must change; starts as watched for both.
  bool set_watching_out(bool watching);

  Outbox& out() { return out_; }
  Inbox& in() { return in_; }
  // As those of the two, adding what they move to a counter.
  Progress write(uint64_t& moved_bytes, std::optional<SegmentTag>& sent);
  Progress read(uint64_t& moved_bytes) { return in_.read(socket_.get(), moved_bytes); }

 private:
  Descriptor socket_;
  bool is_connecting_ = false;
  const char* lost_reason_ = nullptr;
  bool is_watching_out_ = true;
  Outbox out_;
  Inbox in_;
};

}  // namespace pleach::tcp
