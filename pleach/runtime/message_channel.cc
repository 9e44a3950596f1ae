#include "pleach/runtime/message_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

using Kind = TransportEvent::Kind;

// What a frame is: its number where it has a part of a message, else one of these. `operation` is
// the message's sequence, from its source to its target.
constexpr int32_t kWhole = -1;      // the message; `stream` is its tag
constexpr int32_t kAnnounced = -2;  // it is to come; `stream` is its tag, `fingerprint` its bytes
constexpr int32_t kGranted = -3;    // to the source: it may come
// `stream` of a part.
constexpr int32_t kSent = 0;
constexpr int32_t kLent = 1;

// Of one source, which a rank remembers: in 80 bytes each.
constexpr int64_t kMostUnreceived = int64_t{1} << 20;

void copy_bytes(std::byte* out, const std::byte* in, int64_t bytes) {
  if (bytes > 0 && out != in) {
    std::memcpy(out, in, static_cast<std::size_t>(bytes));
  }
}

}  // namespace

Status MessageState::begin(Traffic& traffic, uint64_t /*number*/, TimePoint now) {
  flight.begin_message({.channel = channel,
                        .is_send = request.is_send,
                        .peer = request.peer,
                        .tag = request.tag,
                        .bytes = request.bytes});
  return static_cast<MessageChannel&>(traffic).start(*this, now);
}

MessageChannel::MessageChannel(MessageGroup group, const ChannelOptions& options,
                               Transport& transport, std::vector<bool>& sending)
    : group_(std::move(group)),
      options_(options),
      transport_(transport),
      sending_(sending),
      peers_(sending.size()) {
  for (std::size_t rank = 0; rank < group_.job_ranks.size(); ++rank) {
    Peer& peer = at_peer(group_.job_ranks[rank]);
    peer.group_rank = static_cast<int32_t>(rank);
    peer.free_places = options.places;
  }
}

MessageChannel::~MessageChannel() {
  transport_.close(options_.number);
}

int64_t MessageChannel::segment_count(int64_t bytes) const {
  return bytes / options_.place_bytes + (bytes % options_.place_bytes > 0 ? 1 : 0);
}

std::span<std::byte> MessageChannel::segment(const MessageState& message, int64_t number) const {
  const int64_t begin = number * options_.place_bytes;
  return {message.request.memory + begin,
          at(std::min(options_.place_bytes, message.course.bytes - begin))};
}

MessageState* MessageChannel::find(bool is_send, Rank peer, uint64_t sequence) const {
  return announced_.find(sequence, [&](const MessageState& message) {
    return message.course.sequence == sequence && message.request.is_send == is_send &&
           message.course.peer == peer;
  });
}

void MessageChannel::activate(Rank rank) {
  if (!std::exchange(at_peer(rank).is_active, true)) {
    busy_.active.push_back(rank);
  }
}

// ---- What this rank asks for.

Status MessageChannel::start(MessageState& message, TimePoint now) {
  const MessageRequest& request = message.request;
  message.course = {.peer = request.peer, .expiry = after(now, request.deadline)};
  life_.next_check = std::min(life_.next_check, message.course.expiry);
  PLEACH_TRY(request.is_send ? start_send(message) : start_receive(message));
  return proceed(now);
}

Status MessageChannel::start_send(MessageState& message) {
  message.what = "send";
  const Rank rank = message.request.peer;
  Peer& peer = at_peer(rank);
  message.course.bytes = message.request.bytes;
  message.course.sequence = ++peer.sent;
  message.flight.counted(message.course.sequence);
  if (rank == group_.rank) {
    announced_.append(message.course.sequence, message);
    return deliver({.source = rank,
                    .tag = message.request.tag,
                    .sequence = message.course.sequence,
                    .bytes = message.request.bytes,
                    .own = &message});
  }
  if (peer.lost != nullptr) {
    return lost(message, rank);
  }
  PLEACH_TRY(transport_.connect(rank));
  peer.unheard.append(message);
  activate(rank);
  return ok();
}

Status MessageChannel::start_receive(MessageState& message) {
  const bool is_any = message.request.peer.value < 0;
  message.what = is_any ? "receive from any" : "receive";
  if (const std::optional<MessageLetter> letter = matcher_.post(message)) {
    --at_peer(letter->source).unreceived;
    return match(message, *letter);
  }
  for (const Rank rank : is_any ? std::span<const Rank>(group_.job_ranks)
                                : std::span<const Rank>(&message.request.peer, 1)) {
    if (at_peer(rank).lost != nullptr && (!is_any || has_lost_all())) {
      return lost(message, rank);
    }
    if (rank != group_.rank && at_peer(rank).lost == nullptr) {
      PLEACH_TRY(transport_.connect(rank));
    }
  }
  return ok();
}

Status MessageChannel::deliver(const MessageLetter& letter) {
  if (MessageState* const receive = matcher_.hear_of(letter)) {
    return match(*receive, letter);
  }
  if (++at_peer(letter.source).unreceived <= kMostUnreceived) {
    return ok();
  }
  blame_ = {0, letter.source};
  return invalid(fmt::format("rank {} has sent {} messages that nobody has received",
                             letter.source.value, kMostUnreceived + 1));
}

Status MessageChannel::match(MessageState& receive, const MessageLetter& letter) {
  const MessageRequest& request = receive.request;
  MessageState::Course& course = receive.course;
  Peer& peer = at_peer(letter.source);
  course.peer = letter.source;
  course.sequence = letter.sequence;
  course.bytes = letter.bytes;
  course.is_matched = true;
  receive.received = {Rank{peer.group_rank}, letter.bytes};
  receive.flight.matched(letter.source, letter.sequence, letter.bytes);
  if (letter.bytes > request.bytes) {
    return fail(receive, ErrorCode::kInvalidArgument, letter.source,
                fmt::format("rank {} sends {} bytes with tag {}, the receive takes {}",
                            letter.source.value, letter.bytes, letter.tag, request.bytes));
  }
  if (letter.own != nullptr) {
    copy_bytes(request.memory, letter.own->request.memory, letter.bytes);
    course.is_over = true;
    letter.own->course.is_matched = true;
    letter.own->flight.matched(letter.source, letter.sequence, letter.bytes);
    finish_segments(*letter.own, 0);
    return ok();
  }
  if (letter.is_whole) {
    copy_bytes(request.memory, letter.payload, letter.bytes);
    course.is_over = true;
    return transport_.release(letter.source, options_.number, {letter.sequence, letter.tag, kWhole},
                              letter.place);
  }
  if (peer.lost != nullptr) {
    return lost(receive, letter.source);
  }
  course.left = segment_count(letter.bytes);
  course.is_granting = true;
  receive.marked.assign(at(course.left), false);
  announced_.append(course.sequence, receive);
  peer.grants.append(receive);
  activate(letter.source);
  return ok();
}

// ---- What goes to a peer.

Status MessageChannel::proceed(TimePoint now) {
  for (const Rank rank : busy_.told) {
    at_peer(rank).last_event = now;
    life_.next_check = std::min(life_.next_check, after(now, group_.deadline));
  }
  busy_.told.clear();
  for (std::size_t i = 0; i < busy_.active.size(); ++i) {
    PLEACH_TRY(serve(busy_.active[i]));
  }
  std::erase_if(busy_.active, [&](Rank rank) {
    Peer& peer = at_peer(rank);
    peer.is_active = !peer.unheard.empty() || !peer.grants.empty() || !peer.granted.empty();
    return !peer.is_active;
  });
  return check(now);
}

// Grants first: they are small, and let others go on. Then what the peer has not heard of and what
// it has granted by turns, so that neither keeps the other from coming.
Status MessageChannel::serve(Rank rank) {
  Peer& peer = at_peer(rank);
  while (!sending_[rank.index()] && peer.free_places > 0 && peer.lost == nullptr) {
    if (MessageState* const receive = peer.grants.pop()) {
      PLEACH_TRY(send(rank, *receive, {receive->course.sequence, 0, kGranted}, {}, 0));
      continue;
    }
    const bool is_granted = !peer.granted.empty() && (peer.is_granted_next || peer.unheard.empty());
    peer.is_granted_next = !is_granted;
    if (is_granted) {
      PLEACH_TRY(send_segment(rank, *peer.granted.pop()));
    } else if (MessageState* const message = peer.unheard.pop()) {
      PLEACH_TRY(send_first(rank, *message));
    } else {
      return ok();
    }
  }
  return ok();
}

// Tells the peer of a message: whole, if it may hold a place for as long as it likes.
Status MessageChannel::send_first(Rank rank, MessageState& message) {
  Peer& peer = at_peer(rank);
  const auto& [sequence, bytes] = std::pair(message.course.sequence, message.request.bytes);
  if (bytes <= options_.place_bytes && peer.whole < options_.places - 1) {
    ++peer.whole;
    return send(rank, message, {sequence, message.request.tag, kWhole},
                {message.request.memory, at(bytes)}, 0);
  }
  message.course.left = segment_count(bytes);
  message.marked.assign(at(message.course.left), false);
  announced_.append(sequence, message);
  return send(rank, message, {sequence, message.request.tag, kAnnounced}, {},
              static_cast<uint64_t>(bytes));
}

// Sends the next segment of what was granted, or lets the peer read it.
Status MessageChannel::send_segment(Rank rank, MessageState& message) {
  const int64_t number = message.course.next_segment++;
  const std::span<const std::byte> bytes = segment(message, number);
  if (message.course.next_segment < segment_count(message.course.bytes)) {
    at_peer(rank).granted.append(message);
  }
  SegmentTag tag{message.course.sequence, kLent, static_cast<int32_t>(number)};
  if (std::ssize(bytes) >= options_.least_lent) {
    PLEACH_ASSIGN(has_lent, transport_.lend(rank, options_.number, tag, 0, bytes));
    if (has_lent) {
      message.marked[at(number)] = true;
      --at_peer(rank).free_places;
      return ok();
    }
  }
  tag.stream = kSent;
  return send(rank, message, tag, bytes, 0);
}

Status MessageChannel::send(Rank rank, MessageState& message, SegmentTag tag,
                            std::span<const std::byte> bytes, uint64_t fingerprint) {
  Peer& peer = at_peer(rank);
  --peer.free_places;
  PLEACH_ASSIGN(has_left, transport_.send(rank, options_.number, tag, fingerprint, {&bytes, 1}));
  if (has_left) {
    finish_frame(message, tag.segment);
  } else {
    sending_[rank.index()] = true;
    peer.leaving = &message;
  }
  return ok();
}

// The frame has left.
void MessageChannel::finish_frame(MessageState& message, int32_t segment) {
  if (segment == kWhole) {
    message.course.is_over = true;
  } else if (segment == kGranted) {
    message.course.is_granting = false;
    finish_segments(message, 0);
  } else {
    finish_segments(message, segment == kAnnounced ? 0 : 1);
  }
}

void MessageChannel::finish_segments(MessageState& message, int64_t count) {
  message.course.left -= count;
  // A grant may be seen before it is that the announcement has left, and be one for what has not.
  if (message.course.left > 0 || !message.course.is_matched || message.course.is_granting ||
      at_peer(message.course.peer).leaving == &message) {
    return;
  }
  message.course.is_over = true;
  announced_.take(message.course.sequence,
                  [&](const MessageState& other) { return &other == &message; });
}

// ---- What comes from a peer.

std::span<std::byte> MessageChannel::find_home(Rank peer, SegmentTag tag, uint64_t /*fingerprint*/,
                                               std::size_t bytes) const {
  if (tag.segment >= 0) {
    const MessageState* const receive = find(false, peer, tag.operation);
    const bool is_right = receive != nullptr && tag.segment < std::ssize(receive->marked) &&
                          !receive->marked[at(tag.segment)];
    const auto home = is_right ? segment(*receive, tag.segment) : std::span<std::byte>();
    return home.size() == bytes ? home : std::span<std::byte>();
  }
  // The receive that the message goes to is certain if no other source's may take it first.
  if (tag.segment != kWhole || tag.operation != peers_[peer.index()].heard + 1) {
    return {};
  }
  const MessageState* const receive = matcher_.find_receive(peer, tag.stream);
  const bool is_certain =
      receive != nullptr && receive->request.peer == peer && bytes <= at(receive->request.bytes);
  return is_certain ? std::span(receive->request.memory, bytes) : std::span<std::byte>();
}

Status MessageChannel::handle(const TransportEvent& event) {
  if (event.kind == Kind::kLost) {
    return handle_loss(event.peer, event.reason);
  }
  Peer& peer = at_peer(event.peer);
  if (peer.group_rank < 0) {
    return broken(event);
  }
  busy_.told.push_back(event.peer);
  switch (event.kind) {
    case Kind::kArrived:
      return handle_arrival(event);
    case Kind::kSent:
      if (MessageState* const message = std::exchange(peer.leaving, nullptr)) {
        finish_frame(*message, event.tag.segment);
      }
      return ok();
    case Kind::kReleased:
      return handle_release(event);
    case Kind::kRead:
      return ok();  // a message is released as a whole
    case Kind::kBegun:
    case Kind::kLost:
      break;
  }
  return broken(event);
}

Status MessageChannel::handle_arrival(const TransportEvent& event) {
  switch (event.tag.segment) {
    case kWhole:
    case kAnnounced:
      return handle_first(event);
    case kGranted:
      return handle_grant(event);
    default:
      return handle_segment(event);
  }
}

Status MessageChannel::handle_first(const TransportEvent& event) {
  Peer& peer = at_peer(event.peer);
  const bool is_whole = event.tag.segment == kWhole;
  MessageLetter letter{
      .source = event.peer,
      .tag = event.tag.stream,
      .sequence = event.tag.operation,
      .bytes = is_whole ? std::ssize(event.payload) : static_cast<int64_t>(event.fingerprint),
      .is_whole = is_whole,
      .place = event.place,
      .payload = event.payload.data()};
  // What comes ahead holds its place, so no more can than there are places.
  if (letter.tag < 0 || letter.bytes < 0 || letter.sequence <= peer.heard ||
      letter.sequence > peer.heard + static_cast<uint64_t>(options_.places) || event.is_lent) {
    return broken(event);
  }
  if (letter.sequence > peer.heard + 1) {
    peer.ahead.push_back(letter);
    return ok();
  }
  while (true) {
    ++peer.heard;
    if (!letter.is_whole) {
      PLEACH_TRY(transport_.release(letter.source, options_.number,
                                    {letter.sequence, letter.tag, kAnnounced}, letter.place));
    }
    PLEACH_TRY(deliver(letter));
    const auto next = std::ranges::find(peer.ahead, peer.heard + 1, &MessageLetter::sequence);
    if (next == peer.ahead.end()) {
      return ok();
    }
    letter = *next;
    peer.ahead.erase(next);
  }
}

Status MessageChannel::handle_grant(const TransportEvent& event) {
  PLEACH_TRY(transport_.release(event.peer, options_.number, event.tag, event.place));
  MessageState* const message = find(true, event.peer, event.tag.operation);
  if (message == nullptr || std::exchange(message->course.is_matched, true)) {
    return broken(event);
  }
  message->flight.matched(event.peer, event.tag.operation, message->course.bytes);
  if (message->course.left > 0) {
    at_peer(event.peer).granted.append(*message);
    activate(event.peer);
  }
  finish_segments(*message, 0);
  return ok();
}

Status MessageChannel::handle_segment(const TransportEvent& event) {
  MessageState* const receive = find(false, event.peer, event.tag.operation);
  if (receive == nullptr || event.tag.segment < 0 ||
      event.tag.segment >= std::ssize(receive->marked) || receive->marked[at(event.tag.segment)]) {
    return broken(event);
  }
  const std::span<std::byte> home = segment(*receive, event.tag.segment);
  if (home.size() != event.payload.size()) {
    return broken(event);
  }
  if (!event.is_remote) {
    copy_bytes(home.data(), event.payload.data(), std::ssize(home));
  } else if (!transport_.fetch(event.peer, event.payload.data(), home)) {
    return fail(*receive, ErrorCode::kPeerLost, event.peer,
                fmt::format("rank {} was lost: its memory cannot be read", event.peer.value));
  }
  receive->marked[at(event.tag.segment)] = true;
  finish_segments(*receive, 1);
  const Status released = transport_.release(event.peer, options_.number, event.tag, event.place);
  return released
             ? ok()
             : Status(fail(*receive, released.error().code, event.peer, released.error().message));
}

Status MessageChannel::handle_release(const TransportEvent& event) {
  Peer& peer = at_peer(event.peer);
  const bool was_whole = event.tag.segment == kWhole;
  if (++peer.free_places > options_.places || (was_whole && --peer.whole < 0)) {
    return broken(event);
  }
  if (event.tag.segment >= 0 && event.tag.stream == kLent) {
    MessageState* const message = find(true, event.peer, event.tag.operation);
    if (message == nullptr || event.tag.segment >= std::ssize(message->marked) ||
        !message->marked[at(event.tag.segment)]) {
      return broken(event);
    }
    message->marked[at(event.tag.segment)] = false;
    finish_segments(*message, 1);
  }
  return ok();
}

// ---- What goes wrong.

// The first that suits of those that are neither over nor waiting for themselves.
template <typename Suits>
MessageState* MessageChannel::find_in_flight(const Suits& suits) {
  MessageState* found = matcher_.find_posted(suits);
  found = found == nullptr ? announced_.find_any(suits) : found;
  for (std::size_t rank = 0; rank < group_.job_ranks.size() && found == nullptr; ++rank) {
    const Peer& peer = at_peer(group_.job_ranks[rank]);
    found = peer.unheard.find(suits);
    found =
        found == nullptr && peer.leaving != nullptr && suits(*peer.leaving) ? peer.leaving : found;
  }
  return found;
}

// A receive from any rank may still be answered while one other is there.
bool MessageChannel::has_lost_all() const {
  return std::ranges::all_of(group_.job_ranks, [this](Rank rank) {
    return rank == group_.rank || peers_[rank.index()].lost != nullptr;
  });
}

Status MessageChannel::handle_loss(Rank rank, const char* reason) {
  Peer& peer = at_peer(rank);
  peer.lost = reason;
  if (peer.group_rank < 0) {
    return ok();
  }
  const bool is_alone = has_lost_all();
  const MessageState* const message = find_in_flight([&](const MessageState& other) {
    return other.course.peer == rank || (is_alone && other.course.peer.value < 0);
  });
  return message == nullptr ? ok() : Status(lost(*message, rank));
}

Status MessageChannel::check(TimePoint now) {
  if (now < life_.next_check) {
    return ok();
  }
  life_.next_check = TimePoint::max();
  const bool has_moved = std::exchange(life_.moved_bytes, transport_.moved_bytes()) !=
                         transport_.moved_bytes();  // as within a large segment
  const MessageState* const message = find_in_flight([&](const MessageState& other) {
    TimePoint expiry = other.course.expiry;
    if (other.course.is_matched) {
      const TimePoint last = has_moved ? now : at_peer(other.course.peer).last_event;
      expiry = after(last, group_.deadline);
    }
    life_.next_check = std::min(life_.next_check, expiry);
    return expiry <= now;
  });
  return message == nullptr ? ok() : Status(expired(*message));
}

void MessageChannel::abandon() {
  matcher_.clear();
  announced_.clear();
  for (Peer& peer : peers_) {
    peer.unheard.clear();
    peer.grants.clear();
    peer.granted.clear();
    peer.ahead.clear();
    peer.leaving = nullptr;
  }
  busy_ = {};
  life_.next_check = TimePoint::max();
  transport_.abandon(options_.number);
}

Error MessageChannel::fail(const MessageState& message, ErrorCode code, Rank culprit,
                           std::string cause) {
  blame_ = {message.number, culprit};
  return {code, std::move(cause)};
}

Error MessageChannel::lost(const MessageState& message, Rank rank) {
  return fail(message, ErrorCode::kPeerLost, rank,
              fmt::format("rank {} was lost: {}", rank.value, at_peer(rank).lost));
}

Error MessageChannel::expired(const MessageState& message) {
  const MessageState::Course& course = message.course;
  const MessageRequest& request = message.request;
  std::string cause;
  if (course.is_matched) {
    cause = fmt::format("waited {:.3g} s for rank {} to {} {} more of {} segments with tag {}",
                        seconds_of(group_.deadline), course.peer.value,
                        request.is_send ? "take" : "send", course.left, segment_count(course.bytes),
                        request.tag);
  } else if (request.is_send) {
    cause =
        fmt::format("rank {} did not receive {} bytes with tag {} within {:.3g} s",
                    request.peer.value, request.bytes, request.tag, seconds_of(request.deadline));
  } else {
    const std::string who = request.peer.value < 0
                                ? "no rank sent"
                                : fmt::format("rank {} did not send", request.peer.value);
    cause = fmt::format("{} a message with tag {} within {:.3g} s", who, request.tag,
                        seconds_of(request.deadline));
  }
  return fail(message, ErrorCode::kTimeout, course.peer, std::move(cause));
}

Error MessageChannel::broken(const TransportEvent& event) {
  blame_ = {0, event.peer};
  return {ErrorCode::kIo,
          fmt::format("rank {} sent what belongs to no message (event {}, message {}, stream {}, "
                      "segment {}, {} bytes)",
                      event.peer.value, static_cast<int>(event.kind), event.tag.operation,
                      event.tag.stream, event.tag.segment, event.payload.size())};
}

}  // namespace pleach
