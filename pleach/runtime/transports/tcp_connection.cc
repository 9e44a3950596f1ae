#include "pleach/runtime/transports/tcp_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pleach/base/index.h"

namespace pleach::tcp {
namespace {

constexpr uint64_t kHelloMagic = 0x0a31'4843'4145'4c50;  // "PLEACH1\n"
constexpr uint32_t kFrameMagic = 0x504c'4600;            // the kind in the lowest byte
constexpr std::size_t kPlaceAlignment = 64;

template <std::size_t size, typename... Fields>
std::array<std::byte, size> pack(const Fields&... fields) {
  static_assert((sizeof(Fields) + ...) == size);
  std::array<std::byte, size> bytes;
  std::byte* next = bytes.data();
  ((std::memcpy(next, &fields, sizeof(fields)), next += sizeof(fields)), ...);
  return bytes;
}

template <std::size_t size, typename... Fields>
void unpack(const std::array<std::byte, size>& bytes, Fields&... fields) {
  static_assert((sizeof(Fields) + ...) == size);
  const std::byte* next = bytes.data();
  ((std::memcpy(&fields, next, sizeof(fields)), next += sizeof(fields)), ...);
}

std::string_view text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

HelloBytes write_hello(const Hello& hello) {
  return pack<24>(kHelloMagic, hello.nonce, hello.rank, uint32_t{0});
}

std::optional<Hello> parse_hello(const HelloBytes& bytes) {
  uint64_t magic = 0;
  uint32_t reserved = 0;
  Hello hello;
  unpack(bytes, magic, hello.nonce, hello.rank, reserved);
  return magic == kHelloMagic ? std::optional(hello) : std::nullopt;
}

FrameBytes write_frame(const Frame& frame) {
  const uint32_t magic = kFrameMagic | static_cast<uint32_t>(frame.kind);
  return pack<40>(magic, frame.place, frame.sequence, frame.value, frame.stream, frame.segment,
                  frame.length);
}

std::optional<Frame> parse_frame(const FrameBytes& bytes) {
  uint32_t magic = 0;
  Frame frame;
  unpack(bytes, magic, frame.place, frame.sequence, frame.value, frame.stream, frame.segment,
         frame.length);
  const uint32_t kind = magic & 0xff;
  if (magic - kind != kFrameMagic || kind < 1 || kind > 3) {
    return std::nullopt;
  }
  frame.kind = static_cast<FrameKind>(kind);
  return frame;
}

void Outbox::queue(const Frame& frame) {
  queued_ += text(write_frame(frame));
}

void Outbox::queue_first(const Hello& hello) {
  queued_.insert(0, text(write_hello(hello)));
}

void Outbox::clear() {
  queued_.clear();
  queued_sent_ = 0;
  parts_.clear();
}

void Outbox::start(uint64_t sequence, SegmentTag tag,
                   std::span<const std::span<const std::byte>> pieces) {
  PLEACH_CHECK(parts_.empty(), "one segment at a time leaves on a connection");
  uint64_t length = 0;
  parts_.push_back({header_.data(), header_.size()});
  for (const std::span<const std::byte> piece : pieces) {
    if (piece.empty()) {
      continue;
    }
    length += piece.size();
    // sendmsg reads only, but its type does not say so.
    parts_.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  header_ = write_frame({.kind = FrameKind::kData,
                         .sequence = sequence,
                         .stream = tag.stream,
                         .segment = tag.segment,
                         .length = length});
  tag_ = tag;
  part_ = 0;
  has_begun_segment_ = false;
}

// What to write next: queued frames unless a segment is under way, then the segment.
std::size_t Outbox::gather(std::span<iovec> batch) const {
  std::size_t count = 0;
  if (!has_begun_segment_ && queued_sent_ < queued_.size()) {
    batch[count++] = {const_cast<char*>(queued_.data()) + queued_sent_,
                      queued_.size() - queued_sent_};
  }
  for (std::size_t part = part_; part < parts_.size() && count < batch.size(); ++part) {
    batch[count++] = parts_[part];
  }
  return count;
}

void Outbox::advance(std::size_t count) {
  if (!has_begun_segment_ && queued_sent_ < queued_.size()) {
    const std::size_t taken = std::min(count, queued_.size() - queued_sent_);
    queued_sent_ += taken;
    count -= taken;
    if (queued_sent_ == queued_.size()) {
      queued_.clear();
      queued_sent_ = 0;
    }
  }
  has_begun_segment_ |= count > 0;
  while (count > 0) {
    iovec& part = parts_[part_];
    const std::size_t taken = std::min(count, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
    part.iov_len -= taken;
    count -= taken;
    part_ += part.iov_len == 0 ? 1 : 0;
  }
}

Progress Outbox::write(int socket, uint64_t& moved_bytes, std::optional<SegmentTag>& sent) {
  std::array<iovec, 64> batch = {};
  while (true) {
    msghdr message = {};
    message.msg_iov = batch.data();
    message.msg_iovlen = gather(batch);
    if (message.msg_iovlen == 0) {
      return Progress::kDone;
    }
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno == EAGAIN ? Progress::kBlocked : Progress::kLost;
    }
    advance(at(count));
    moved_bytes += static_cast<uint64_t>(count);
    if (has_begun_segment_ && part_ == parts_.size()) {
      parts_.clear();
      part_ = 0;
      has_begun_segment_ = false;
      sent = tag_;
    }
  }
}

void Inbox::make_room(int32_t places, int64_t place_bytes) {
  PLEACH_CHECK(!has_payload_, "places do not move while something arrives in one");
  stride_ = (static_cast<std::size_t>(place_bytes) + kPlaceAlignment - 1) / kPlaceAlignment *
            kPlaceAlignment;
  const std::size_t needed = stride_ * at(places);
  if (needed > memory_bytes_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(needed);
    memory_bytes_ = needed;
  }
}

Progress Inbox::read(int socket, uint64_t& moved_bytes) {
  while (true) {
    const std::span<std::byte> target = has_payload_ ? arriving_.payload : std::span(header_);
    if (received_ == target.size()) {
      return Progress::kDone;
    }
    const ssize_t count = recv(socket, target.data() + received_, target.size() - received_, 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return count < 0 && errno == EAGAIN ? Progress::kBlocked : Progress::kLost;
    }
    received_ += at(count);
    moved_bytes += static_cast<uint64_t>(count);
  }
}

std::optional<Frame> Inbox::take_header() {
  received_ = 0;
  return parse_frame(header_);
}

void Inbox::expect(int32_t place, const Frame& frame) {
  has_payload_ = true;
  received_ = 0;
  arriving_ = {
      {frame.stream, frame.segment},
      place,
      std::span(memory_.get() + stride_ * at(place), static_cast<std::size_t>(frame.length))};
}

Arrived Inbox::take_payload() {
  has_payload_ = false;
  received_ = 0;
  return arriving_;
}

void Connection::say_hello(const Hello& hello) {
  is_connecting_ = true;
  out_.queue_first(hello);
}

void Connection::close(const char* reason) {
  socket_.close();
  lost_reason_ = lost_reason_ == nullptr ? reason : lost_reason_;
  is_connecting_ = false;
  out_.clear();
}

bool Connection::set_watching_out(bool watching) {
  return std::exchange(is_watching_out_, watching) != watching;
}

Progress Connection::write(uint64_t& moved_bytes, std::optional<SegmentTag>& sent) {
  return is_connecting_ ? Progress::kBlocked : out_.write(socket_.get(), moved_bytes, sent);
}

}  // namespace pleach::tcp
