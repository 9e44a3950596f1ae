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
// Smaller payloads travel on the first lane alone: their time is not that of their bytes.
constexpr std::size_t kLeastStriped = std::size_t{64} * 1024;

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

Stripe stripe(std::size_t length, std::size_t lane, std::size_t lane_count) {
  if (length < kLeastStriped) {
    return lane == 0 ? Stripe{0, length} : Stripe{length, length};
  }
  return {length * lane / lane_count, length * (lane + 1) / lane_count};
}

void Pieces::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) {
    // sendmsg reads only, but its type does not say so.
    pieces_.push_back({const_cast<std::byte*>(bytes.data()), bytes.size()});
  }
}

void Pieces::clear() {
  copy_.clear();
  pieces_.clear();
  next_ = 0;
  has_begun_ = false;
}

std::size_t Pieces::gather(std::span<iovec> batch, std::size_t used) const {
  for (std::size_t piece = next_; piece < pieces_.size() && used < batch.size(); ++piece) {
    batch[used++] = pieces_[piece];
  }
  return used;
}

void Pieces::advance(std::size_t count) {
  has_begun_ |= count > 0;
  while (count > 0) {
    iovec& piece = pieces_[next_];
    const std::size_t taken = std::min(count, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    count -= taken;
    next_ += piece.iov_len == 0 ? 1 : 0;
  }
}

void Pieces::own() {
  std::vector<std::byte> rest;
  for (const iovec& piece : std::span(pieces_).subspan(next_)) {
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
    rest.insert(rest.end(), begin, begin + piece.iov_len);
  }
  copy_ = std::move(rest);
  pieces_.clear();
  next_ = 0;
  add(copy_);
}

void Outbox::clear() {
  queued_.clear();
  queued_sent_ = 0;
  drop_segment();
}

void Outbox::drop_segment() {
  std::ranges::for_each(parts_, &Pieces::clear);
  sending_.reset();
}

bool Outbox::release_memory() {
  if (std::ranges::any_of(parts_, &Pieces::has_begun)) {
    std::ranges::for_each(parts_, &Pieces::own);
    return false;
  }
  drop_segment();
  return true;
}

void Outbox::start(Frame frame, std::span<const std::span<const std::byte>> pieces,
                   std::size_t lane_count) {
  PLEACH_CHECK(!sending_, "one segment at a time leaves on a connection");
  parts_.resize(lane_count);
  parts_[0].add(header_);
  std::size_t length = 0;
  for (const std::span<const std::byte> piece : pieces) {
    length += piece.size();
  }
  std::size_t lane = 0, sent = 0;
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      const std::size_t room = stripe(length, lane, lane_count).end - sent;
      const std::size_t taken = std::min(room, piece.size());
      parts_[lane].add(piece.first(taken));
      piece = piece.subspan(taken);
      sent += taken;
      lane += taken == room ? 1 : 0;
    }
  }
  frame.length = static_cast<uint32_t>(length);
  header_ = write_frame(frame);
  sending_ = {frame.channel, frame.tag()};
}

// What to write next: on the first lane queued frames, unless a segment is under way there.
std::size_t Outbox::gather(std::span<iovec> batch, std::size_t lane) const {
  std::size_t count = 0;
  if (lane == 0 && !parts_[0].is_under_way() && queued_sent_ < queued_.size()) {
    batch[count++] = {const_cast<char*>(queued_.data()) + queued_sent_,
                      queued_.size() - queued_sent_};
  }
  return parts_[lane].gather(batch, count);
}

void Outbox::advance(std::size_t count, std::size_t lane) {
  if (lane == 0 && !parts_[0].is_under_way() && queued_sent_ < queued_.size()) {
    const std::size_t taken = std::min(count, queued_.size() - queued_sent_);
    queued_sent_ += taken;
    count -= taken;
    if (queued_sent_ == queued_.size()) {
      queued_.clear();
      queued_sent_ = 0;
    }
  }
  parts_[lane].advance(count);
}

Flow Outbox::write_lane(Wire& wire, std::size_t lane, uint64_t& moved_bytes) {
  std::array<iovec, 64> batch = {};
  while (true) {
    const std::size_t parts = gather(batch, lane);
    if (parts == 0 && wire.flush()) {
      return Flow::kDone;
    }
    const ssize_t count = parts == 0 ? -1 : wire.write(std::span(batch).first(parts));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return errno == EAGAIN ? Flow::kBlocked : Flow::kLost;
    }
    advance(at(count), lane);
    moved_bytes += static_cast<uint64_t>(count);
  }
}

Flow Outbox::write(std::span<Wire> lanes, uint64_t& moved_bytes, std::optional<Sending>& sent) {
  parts_.resize(lanes.size());
  const Flow first = write_lane(lanes[0], 0, moved_bytes);
  is_blocked_ = first == Flow::kBlocked;
  bool is_lost = first == Flow::kLost;
  for (std::size_t lane = 1; lane < parts_.size(); ++lane) {
    const Flow flow = write_lane(lanes[lane], lane, moved_bytes);
    is_lost = is_lost || flow == Flow::kLost;
  }
  if (sending_ && std::ranges::all_of(parts_, &Pieces::is_empty)) {
    sent = sending_;
    drop_segment();
  }
  return is_lost ? Flow::kLost : first;
}

bool Inbox::has_all_parts() const {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.left == 0; });
}

bool Inbox::has_room() const {
  return received_ < own_.size() || end_ - begin_ < kBufferBytes;
}

Flow Inbox::read(Wire& wire, uint64_t& moved_bytes) {
  if (buffer_ == nullptr) {
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  }
  // A part of a header at most, unless parts of other lanes are waited for.
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const std::size_t rest = has_payload_ ? own_.size() - received_ : 0;
  if (rest == 0 && end_ == kBufferBytes) {
    return Flow::kBlocked;
  }
  std::array<iovec, 2> targets = {iovec{own_.data() + received_, rest},
                                  iovec{buffer_.get() + end_, kBufferBytes - end_}};
  const auto to = std::span(targets).subspan(rest > 0 ? 0 : 1);
  ssize_t count = 0;
  do {
    count = wire.read(to);
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

Flow Inbox::read_parts(std::span<Wire> lanes, uint64_t& moved_bytes) {
  bool is_blocked = false;
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    Part& part = parts_[other];
    while (part.left > 0) {
      std::array<std::byte, 4096> nowhere;
      const iovec to = part.to != nullptr
                           ? iovec{part.to, part.left}
                           : iovec{nowhere.data(), std::min(part.left, nowhere.size())};
      const ssize_t count = lanes[other + 1].read(std::span(&to, 1));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count < 0 && errno == EAGAIN) {
        is_blocked = true;
        break;
      }
      if (count <= 0) {
        return Flow::kLost;
      }
      part.left -= at(count);
      part.to += part.to != nullptr ? count : 0;
      moved_bytes += static_cast<uint64_t>(count);
    }
  }
  return is_blocked ? Flow::kBlocked : Flow::kDone;
}

std::optional<FrameBytes> Inbox::take_header() {
  const std::size_t count = std::min(end_ - begin_, skipped_);
  begin_ += count;
  skipped_ -= count;
  FrameBytes header;
  if (end_ - begin_ < header.size() || !has_all_parts()) {
    return std::nullopt;
  }
  std::memcpy(header.data(), buffer_.get() + begin_, header.size());
  begin_ += header.size();
  return header;
}

void Inbox::expect(const Arriving& arriving, std::size_t lane_count) {
  const std::span<std::byte> payload = arriving.payload;
  skip(payload.size(), lane_count);
  own_ = payload.first(std::exchange(skipped_, 0));
  std::size_t begin = own_.size();
  for (Part& part : parts_) {
    part.to = payload.data() + begin;
    begin += part.left;
  }
  arriving_ = arriving;
  has_payload_ = true;
  received_ = 0;
  absorb();
}

void Inbox::skip(std::size_t bytes, std::size_t lane_count) {
  skipped_ = stripe(bytes, 0, lane_count).end;
  parts_.resize(lane_count - 1);
  for (std::size_t other = 0; other < parts_.size(); ++other) {
    const Stripe part = stripe(bytes, other + 1, lane_count);
    parts_[other] = {nullptr, part.end - part.begin};
  }
}

void Inbox::drop_payload() {
  skipped_ = own_.size() - received_;
  for (Part& part : parts_) {
    part.to = nullptr;
  }
  has_payload_ = false;
  received_ = 0;
  own_ = {};
  arriving_ = {};
}

// Moves what of the payload came with its header.
void Inbox::absorb() {
  const std::size_t count = std::min(end_ - begin_, own_.size() - received_);
  if (count > 0) {
    std::memcpy(own_.data() + received_, buffer_.get() + begin_, count);
    begin_ += count;
    received_ += count;
  }
}

std::optional<Arriving> Inbox::take_payload() {
  if (!has_payload_ || received_ < own_.size() || !has_all_parts()) {
    return std::nullopt;
  }
  has_payload_ = false;
  received_ = 0;
  own_ = {};
  return std::exchange(arriving_, {});
}

bool Connection::adopt(Wire wire, std::size_t lane, std::size_t lane_count) {
  lanes_.resize(lane_count);
  if (lanes_[lane].is_open()) {
    return false;
  }
  lanes_[lane] = std::move(wire);
  is_open_ = std::ranges::all_of(lanes_, &Wire::is_open);
  return true;
}

void Connection::close(const char* reason) {
  lanes_.clear();
  is_open_ = false;
  lost_reason_ = lost_reason_ == nullptr ? reason : lost_reason_;
  out_.clear();
}

bool Connection::set_watched(uint32_t events) {
  return std::exchange(watched_, events) != events;
}

}  // namespace pleach::tcp
