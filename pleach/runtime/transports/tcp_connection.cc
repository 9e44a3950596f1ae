#include "pleach/runtime/transports/tcp_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pleach/base/index.h"

namespace pleach::tcp {
namespace {

constexpr uint32_t kFrameMagic = 0x504c'4600;  // the kind in the lowest byte
// As much as a read takes besides the payload that it knows of.
constexpr std::size_t kBufferBytes = std::size_t{16} * 1024;

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

FrameBytes write_frame(const Frame& frame) {
  const uint32_t magic = kFrameMagic | static_cast<uint32_t>(frame.kind);
  return pack<40>(magic, frame.length, frame.channel, frame.operation, frame.fingerprint,
                  frame.stream, frame.segment);
}

std::optional<Frame> parse_frame(const FrameBytes& bytes) {
  uint32_t magic = 0;
  Frame frame;
  unpack(bytes, magic, frame.length, frame.channel, frame.operation, frame.fingerprint,
         frame.stream, frame.segment);
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

void Outbox::clear() {
  queued_.clear();
  queued_sent_ = 0;
  parts_.clear();
}

std::optional<Sending> Outbox::sending() const {
  return parts_.empty() ? std::nullopt : std::optional(sending_);
}

bool Outbox::drop_segment() {
  if (has_begun_segment_) {
    return false;
  }
  parts_.clear();
  part_ = 0;
  return true;
}

void Outbox::start(Frame frame, std::span<const std::span<const std::byte>> pieces) {
  PLEACH_CHECK(parts_.empty(), "one segment at a time leaves on a connection");
  std::size_t length = 0;
  parts_.push_back({header_.data(), header_.size()});
  for (const std::span<const std::byte> piece : pieces) {
    if (piece.empty()) {
      continue;
    }
    length += piece.size();
    // sendmsg reads only, but its type does not say so.
    parts_.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
  frame.length = static_cast<uint32_t>(length);
  header_ = write_frame(frame);
  sending_ = {frame.channel, frame.tag()};
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

Flow Outbox::write(int socket, uint64_t& moved_bytes, std::optional<Sending>& sent) {
  std::array<iovec, 64> batch = {};
  while (true) {
    msghdr message = {};
    message.msg_iov = batch.data();
    message.msg_iovlen = gather(batch);
    if (message.msg_iovlen == 0) {
      return Flow::kDone;
    }
    const ssize_t count = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno == EAGAIN ? Flow::kBlocked : Flow::kLost;
    }
    advance(at(count));
    moved_bytes += static_cast<uint64_t>(count);
    if (has_begun_segment_ && part_ == parts_.size()) {
      parts_.clear();
      part_ = 0;
      has_begun_segment_ = false;
      sent = sending_;
    }
  }
}

Flow Inbox::read(int socket, uint64_t& moved_bytes) {
  if (buffer_ == nullptr) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  }
  // A part of a header at most.
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t rest = has_payload_ ? arriving_.payload.size() - received_ : 0;
  std::array<iovec, 2> targets = {iovec{arriving_.payload.data() + received_, rest},
                                  iovec{buffer_.get() + end_, kBufferBytes - end_}};
  const auto to = std::span(targets).subspan(rest > 0 ? 0 : 1);
  ssize_t count = 0;
  do {
    count = readv(socket, to.data(), static_cast<int>(to.size()));
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    return count < 0 && errno == EAGAIN ? Flow::kBlocked : Flow::kLost;
  }
  moved_bytes += static_cast<uint64_t>(count);
  const bool is_full = at(count) == rest + kBufferBytes - end_;
  const std::size_t to_payload = std::min(at(count), rest);
  received_ += to_payload;
  end_ += at(count) - to_payload;
  return is_full ? Flow::kDone : Flow::kBlocked;
}

std::optional<FrameBytes> Inbox::take_header() {
  const std::size_t count = std::min(end_ - begin_, skipped_);
  begin_ += count;
  skipped_ -= count;
  FrameBytes header;
  if (end_ - begin_ < header.size()) {
    return std::nullopt;
  }
  std::memcpy(header.data(), buffer_.get() + begin_, header.size());
  begin_ += header.size();
  return header;
}

void Inbox::expect(const Arriving& arriving) {
  arriving_ = arriving;
  has_payload_ = true;
  received_ = 0;
  absorb();
}

// Moves what of the payload came with its header.
void Inbox::absorb() {
  const std::size_t count = std::min(end_ - begin_, arriving_.payload.size() - received_);
  if (count > 0) {
    std::memcpy(arriving_.payload.data() + received_, buffer_.get() + begin_, count);
    begin_ += count;
    received_ += count;
  }
}

std::optional<Arriving> Inbox::take_payload() {
  if (!has_payload_ || received_ < arriving_.payload.size()) {
    return std::nullopt;
  }
  has_payload_ = false;
  received_ = 0;
  return std::exchange(arriving_, {});
}

void Connection::close(const char* reason) {
  socket_.close();
  lost_reason_ = lost_reason_ == nullptr ? reason : lost_reason_;
  out_.clear();
}

bool Connection::set_watching_out(bool watching) {
  return std::exchange(is_watching_out_, watching) != watching;
}

}  // namespace pleach::tcp
