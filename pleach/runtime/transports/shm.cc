// shm: the ranks of one host; segments are written to landing places in memory that they share.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/closed_channels.h"
#include "pleach/runtime/transports/create_listening.h"
#include "pleach/runtime/transports/meeting_options.h"
#include "pleach/runtime/transports/patience.h"
#include "pleach/runtime/transports/process_memory.h"
#include "pleach/runtime/transports/seen_events.h"
#include "pleach/runtime/transports/shared_memory.h"
#include "pleach/runtime/transports/shm_layout.h"
#include "pleach/runtime/transports/shm_peer.h"

namespace pleach {
namespace {

using EventKind = TransportEvent::Kind;
using shm::Held;
using shm::OwnChannel;
using shm::Peer;
using shm::PeerChannel;
using shm::Pending;

// epoll tags: a rank, one of these, or the meeting's.
constexpr uint64_t kFailure = uint64_t{1} << 32;
constexpr uint64_t kInterrupt = kFailure + 1;
constexpr uint64_t kBeside = kFailure + 2;

// Messages of one peer before the others have their turn.
constexpr int kMostMessages = 64;
// Sockets are looked at once in so many waits, even where messages never cease.
constexpr uint32_t kWaitsPerLook = 64;
// Messages that found a ring full are tried again at once, so often, and then after so long.
constexpr int32_t kEagerTurns = 1000;
constexpr Duration kRetry = std::chrono::milliseconds(1);

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(const TransportContext& context)
      : context_(context),
        peers_(at(context.rank_count)),
        patience_(Patience::for_ranks(context.ranks_on_host())) {}

  Status listen();
  void set_sink(Sink& /*sink*/) override {}  // segments are written to their places
  Status open(const ChannelOptions& channel) override;
  void abandon(uint64_t channel) override;
  void close(uint64_t channel) override;
  std::string address() const override { return own_.address; }
  Status introduce(Rank peer, std::string_view address) override {
    PLEACH_SET(at_peer(peer).nonce, shm::read_address(own_.address, context_.rank, address, peer));
    return ok();
  }
  Status connect(Rank peer) override;
  void note_departure(Rank peer) override {
    if (!at_peer(peer).socket.is_open()) {
      lose(peer, kHasLeft);
    }
  }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation, uint64_t fingerprint) override;
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override;
  Result<bool> lend(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::byte> bytes) override;
  bool reads_peers() const override { return true; }
  bool fetch(Rank peer, const std::byte* from, std::span<std::byte> to) override;
  Status tell_read(Rank peer, uint64_t channel, SegmentTag tag, int32_t item) override;
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override;
  bool holds_back() const override { return some_.owed > 0; }
  Status flush() override;
  bool has_events() const override {
    return !events_.empty() || some_.lack ||
           (some_.is_clogged && some_.clogged_turns < kEagerTurns);
  }
  TimePoint expiry() const override {
    return some_.is_clogged ? std::min(meeting_.expiry(), context_.clock->now() + kRetry)
                            : meeting_.expiry();
  }
  void interrupt() override;
  Status wait(TimePoint deadline, bool is_eager) override;
  Status progress(std::vector<TransportEvent>& events) override;
  uint64_t moved_bytes() const override { return moved_bytes_; }
  bool has_far_peers() const override { return distance_.is_far(); }

 private:
  struct Own {
    SharedMemory memory;
    std::shared_ptr<std::byte> shared;
    Descriptor interrupts;
    std::vector<OwnChannel> channels = {};
    ClosedChannels closed = {};
    uint64_t word = 0;  // that peers try to read
    std::string address = {};
  };
  // Some of the peers.
  struct Some {
    std::vector<Rank> active = {};  // their memory is here; changes in progress() only
    bool is_clogged = false;        // messages to some wait for room
    int32_t clogged_turns = 0;      // since they do
    int32_t owed = 0;               // that have not been told of free places, by channel
    uint64_t freed_regions = 0;     // that they have been told of
    // This process lacks descriptors or addresses to share a peer's memory. progress() tells.
    std::optional<Error> lack = {};
  };
  // What wait() saw, and how it was called.
  struct Ready {
    Descriptor epoll;
    SeenEvents seen = {};
    uint32_t waits = 0;
    std::atomic<bool> is_interrupted = false;
  };
  Peer& at_peer(Rank rank) { return peers_[rank.index()]; }
  shm::Control& control() const { return shm::control_in(own_.shared.get()); }
  void meet(Rank rank, Wire wire);
  void probe(Peer& peer, const shm::Hello& words);
  void hear_hello(Rank rank);
  Status handle(const epoll_event& event);
  void lose(Rank rank, const char* reason);
  PeerChannel* find_channel(Peer& peer, uint64_t number);
  Status check_lender(Rank rank, uint64_t number);
  OwnChannel* find_own(uint64_t number);
  bool fill(Rank rank, shm::Message message, std::span<const std::span<const std::byte>> pieces);
  uint64_t take_owed(Rank rank, OwnChannel& own);
  void forget_freed();
  void post(Peer& peer, const shm::Message& message);
  void wake(Peer& peer);
  void push_waiting();
  void receive(Rank rank);
  bool open_message(Rank rank, const shm::Message& message);
  bool open_payload(Rank rank, OwnChannel& own, const shm::Message& message);
  bool open_release(Rank rank, const shm::Message& message);
  void tell_released(Rank rank, OwnChannel& own);
  bool has_work() const;
  Status look(int milliseconds) { return ready_.seen.look(ready_.epoll.get(), milliseconds); }

  TransportContext context_;
  Own own_;
  std::vector<Peer> peers_;  // by rank
  Some some_;
  Meeting meeting_;
  Ready ready_;
  const Patience patience_;
  shm::Distance distance_;
  std::vector<TransportEvent> events_;
  uint64_t moved_bytes_ = 0;
};

Status ShmTransport::listen() {
  PLEACH_SET(ready_.epoll, make_epoll());
  const int64_t bytes = shm::control_bytes(context_.rank_count);
  PLEACH_SET(own_.memory, SharedMemory::create(bytes));
  PLEACH_SET(own_.shared, own_.memory.map(0, bytes));
  own_.interrupts = make_event();
  for (int32_t rank = 0; rank < context_.rank_count; ++rank) {
    at_peer(Rank{rank}).in = shm::Reader(shm::ring_in(own_.shared.get(), Rank{rank}));
  }
  own_.word = make_nonce();
  PLEACH_ASSIGN(listener, listen_on_host(shm::socket_name(own_.word)));
  PLEACH_TRY(meeting_.open(
      meeting_options(context_, Purpose::kShm, own_.word, ready_.epoll.get()), std::move(listener),
      [this](Rank rank, uint16_t /*lane*/, Wire wire) { meet(rank, std::move(wire)); },
      [this](Rank rank, const char* reason) { lose(rank, reason); }));
  // Nobody reads it: every interrupt is an edge.
  PLEACH_TRY(watch(ready_.epoll.get(), own_.interrupts.get(), EPOLLIN | EPOLLET, kInterrupt));
  PLEACH_TRY(watch(ready_.epoll.get(), context_.epoch->descriptor(), EPOLLIN, kFailure));
  if (context_.beside >= 0) {
    PLEACH_TRY(watch(ready_.epoll.get(), context_.beside, EPOLLIN, kBeside));
  }
  PLEACH_ASSIGN(host, host_identity(context_.host.name));
  own_.address = fmt::format("{} {}", own_.word, host);
  return ok();
}

// ---- Channels.

OwnChannel* ShmTransport::find_own(uint64_t number) {
  const auto found = std::ranges::find(own_.channels, number,
                                       [](const OwnChannel& own) { return own.options.number; });
  return found == own_.channels.end() ? nullptr : &*found;
}

Status ShmTransport::open(const ChannelOptions& channel) {
  const auto entry = std::ranges::find_if(
      control().channels, [](const shm::ChannelEntry& one) { return !one.is_open(); });
  if (entry == control().channels.end()) {
    return invalid(fmt::format("{} channels are open on one endpoint, two of each communicator",
                               shm::kMostChannels));
  }
  OwnChannel own{.options = channel};
  own.held.resize(at(channel.places) * peers_.size());
  own.owed.resize(peers_.size());
  const int64_t bytes = shm::area_bytes(channel) * context_.rank_count;
  PLEACH_SET(own.offset, own_.memory.grow(bytes));
  PLEACH_SET(own.memory, own_.memory.map(own.offset, bytes));
  own.entry = static_cast<std::size_t>(entry - control().channels.begin());
  entry->open(channel.number, own.offset);
  own_.channels.push_back(std::move(own));
  return ok();
}

// Segments come whole; of those that wait for a peer's memory nothing is read any more. What the
// peers read of this rank's memory from here on they do not take.
void ShmTransport::abandon(uint64_t channel) {
  if (OwnChannel* const own = find_own(channel)) {
    control().channels[own->entry].is_given_up.store(1);
  }
  for (int32_t rank = 0; rank < context_.rank_count; ++rank) {
    std::optional<Pending>& pending = at_peer(Rank{rank}).backlog.segment;
    if (pending && pending->message.channel == channel) {
      events_.push_back({.kind = EventKind::kSent,
                         .peer = Rank{rank},
                         .channel = channel,
                         .tag = pending->message.tag()});
      pending.reset();
    }
  }
}

void ShmTransport::close(uint64_t channel) {
  abandon(channel);
  own_.closed.add(channel);
  if (OwnChannel* const own = find_own(channel)) {
    control().channels[own->entry].close();
    some_.owed -= static_cast<int32_t>(
        std::ranges::count_if(own->owed, [](uint64_t places) { return places != 0; }));
    own_.memory.discard(own->offset, shm::area_bytes(own->options) * context_.rank_count);
  }
  std::erase_if(own_.channels,
                [&](const OwnChannel& own) { return own.options.number == channel; });
  for (Peer& peer : peers_) {
    std::erase_if(peer.channels,
                  [&](const PeerChannel& other) { return other.number() == channel; });
  }
}

// Where segments for the peer go. Null: it has not opened that channel, or no more.
PeerChannel* ShmTransport::find_channel(Peer& peer, uint64_t number) {
  if (PeerChannel* const known = peer.find_channel(number)) {
    return known;
  }
  const OwnChannel* const own = find_own(number);
  return own == nullptr ? nullptr : peer.open_channel(own->options, context_, some_.lack);
}

// ---- Connections.

// The lower rank of a pair listens.
Status ShmTransport::connect(Rank rank) {
  Peer& peer = at_peer(rank);
  if (rank > context_.rank || peer.socket.is_open() || peer.is_lost()) {
    return ok();
  }
  PLEACH_CHECK(peer.nonce.has_value(), "a peer that nobody has introduced");
  const uint64_t nonce = *peer.nonce;
  return meeting_.approach(rank, 0, nonce,
                           [nonce] { return connect_on_host(shm::socket_name(nonce)); });
}

// Each tells the other where its memory is.
void ShmTransport::meet(Rank rank, Wire wire) {
  Peer& peer = at_peer(rank);
  if (peer.socket.is_open() || peer.is_lost() || !is_of_this_user(wire.socket())) {
    return;
  }
  peer.socket = std::move(wire).take_socket();
  const shm::Hello words = {.rank = context_.rank.value,
                            .rank_count = context_.rank_count,
                            .probe = own_.word,
                            .probe_address = reinterpret_cast<uint64_t>(&own_.word)};
  if (!send_with_descriptors(peer.socket.get(), std::as_bytes(std::span(&words, 1)),
                             std::array{own_.memory.descriptor()}) ||
      !watch(ready_.epoll.get(), peer.socket.get(), EPOLLIN, static_cast<uint64_t>(rank.value))) {
    lose(rank, "its connection broke");
  }
}

// From here on messages flow.
void ShmTransport::hear_hello(Rank rank) {
  Peer& peer = at_peer(rank);
  shm::Hello words;
  std::vector<Descriptor> brought;
  const ssize_t count = receive_with_descriptors(
      peer.socket.get(), std::as_writable_bytes(std::span(&words, 1)), brought);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count < 0 && is_out_of_descriptors(errno)) {
    some_.lack = out_of_descriptors("share the memory of a peer", errno);
    return;
  }
  if (count != ssize_t{sizeof(words)} || words.magic != shm::Hello().magic ||
      words.rank != rank.value || words.rank_count != context_.rank_count ||
      !peer.adopt(std::move(brought), context_, some_.lack)) {
    return lose(rank, count <= 0 ? "its connection closed" : "it broke the transport's protocol");
  }
  some_.active.push_back(rank);
  some_.is_clogged = true;  // what has waited for the memory may go now
  probe(peer, words);
}

// Finds out whether the peer's memory may be read, and tells it.
void ShmTransport::probe(Peer& peer, const shm::Hello& words) {
  uint64_t found = 0;
  peer.reads.process = process_of(peer.socket.get());
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
  const auto* const there = reinterpret_cast<const std::byte*>(words.probe_address);
  if (read_process(peer.reads.process, there, std::as_writable_bytes(std::span(&found, 1))) &&
      found == words.probe) {
    peer.reads.is_readable = true;
    post(peer, {.kind = shm::Kind::kReadable});
    wake(peer);
  }
}

void ShmTransport::lose(Rank rank, const char* reason) {
  Peer& peer = at_peer(rank);
  if (peer.is_lost()) {
    return;
  }
  peer.lost_reason = reason;
  some_.lack = peer.reads.regions.lack() ? peer.reads.regions.lack() : some_.lack;
  peer.socket = Descriptor();
  peer.backlog.messages.clear();
  peer.backlog.segment.reset();
  std::erase(some_.active, rank);
  events_.push_back({.kind = EventKind::kLost, .peer = rank, .reason = reason});
}

// ---- Sending.

void ShmTransport::wake(Peer& peer) {
  if (peer.shared == nullptr || peer.is_lost()) {
    return;
  }
  std::atomic<uint32_t>& is_asleep = shm::control_in(peer.shared.get()).is_asleep;
  if (is_asleep.load() != 0 && is_asleep.exchange(0) != 0) {
    shm::ring(peer.socket.get());
  }
}

void ShmTransport::post(Peer& peer, const shm::Message& message) {
  if (peer.is_lost()) {
    return;
  }
  if (peer.shared == nullptr || !peer.backlog.messages.empty() || !peer.out.has_room()) {
    peer.backlog.messages.push_back(message);
    some_.is_clogged = some_.is_clogged || peer.shared != nullptr;
    return;
  }
  peer.put(message, distance_, *context_.clock);
}

Status ShmTransport::tell_begun(Rank rank, uint64_t channel, uint64_t operation,
                                uint64_t fingerprint) {
  Peer& peer = at_peer(rank);
  post(peer, {.kind = shm::Kind::kBegin,
              .channel = channel,
              .operation = operation,
              .fingerprint = fingerprint});
  wake(peer);
  return ok();
}

// Writes a segment to a free place and says so. False: the peer has no such channel any more.
bool ShmTransport::fill(Rank rank, shm::Message message,
                        std::span<const std::span<const std::byte>> pieces) {
  Peer& peer = at_peer(rank);
  PeerChannel* const channel = find_channel(peer, message.channel);
  if (channel == nullptr || !channel->has_place()) {
    return false;
  }
  OwnChannel& own = *find_own(message.channel);
  for (const std::span<const std::byte> piece : pieces) {
    message.length += static_cast<uint32_t>(piece.size());
  }
  PLEACH_CHECK(message.length <= at(own.options.place_bytes),
               "segments fit the places of their channel");
  message.place = channel->take(message.tag(), message.length);
  message.region = static_cast<uint32_t>(at(channel->offset(message.place)) / shm::kLine);
  message.word = take_owed(rank, own);
  shm::copy_pieces(pieces, channel->begin(message.place), has_far_peers());
  moved_bytes_ += message.length;
  post(peer, message);
  wake(peer);
  return true;
}

Result<bool> ShmTransport::send(Rank rank, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                                std::span<const std::span<const std::byte>> pieces) {
  Peer& peer = at_peer(rank);
  const shm::Message message{.kind = shm::Kind::kData,
                             .channel = channel,
                             .operation = tag.operation,
                             .fingerprint = fingerprint,
                             .stream = tag.stream,
                             .segment = tag.segment};
  if (peer.is_lost()) {
    return false;  // kLost has been told
  }
  if (peer.shared == nullptr) {
    peer.backlog.segment = Pending{message, {pieces.begin(), pieces.end()}};
    return false;
  }
  return fill(rank, message, pieces);
}

Result<bool> ShmTransport::lend(Rank rank, uint64_t number, SegmentTag tag, uint64_t fingerprint,
                                std::span<const std::byte> bytes) {
  Peer& peer = at_peer(rank);
  if (peer.is_lost() || peer.shared == nullptr) {
    return false;
  }
  const std::shared_ptr<const PeerRegion> region = find_peer_region(bytes);
  PeerChannel* const channel = find_channel(peer, number);
  const bool is_alone = has_far_peers() && patience_.has_core();
  if (channel == nullptr || !channel->has_place() ||
      !(region == nullptr ? peer.prefers_to_read(find_own(number)->options, bytes, is_alone)
                          : peer.reads.regions.tell_of(peer.socket.get(), region))) {
    return false;
  }
  const auto* const base = region == nullptr ? nullptr : region->mapping.get();
  const auto offset = reinterpret_cast<uint64_t>(bytes.data()) - reinterpret_cast<uint64_t>(base);
  post(peer, {.kind = shm::Kind::kLend,
              .place = channel->take(tag, 0),
              .channel = number,
              .operation = tag.operation,
              .fingerprint = fingerprint,
              .length = static_cast<uint32_t>(bytes.size()),
              .region = region == nullptr ? 0 : region->number,
              .word = offset,
              .stream = tag.stream,
              .segment = tag.segment});
  wake(peer);
  return true;
}

bool ShmTransport::fetch(Rank rank, const std::byte* from, std::span<std::byte> to) {
  return read_process(at_peer(rank).reads.process, from, to).has_value();
}

// After a read: its memory may have changed meanwhile once the peer has given up.
Status ShmTransport::check_lender(Rank rank, uint64_t number) {
  PeerChannel* const channel = find_channel(at_peer(rank), number);
  if (channel != nullptr && channel->is_sound()) {
    return ok();
  }
  return Error{ErrorCode::kPeerLost,
               fmt::format("rank {} gave up while its memory was read", rank.value)};
}

Status ShmTransport::tell_read(Rank rank, uint64_t channel, SegmentTag tag, int32_t item) {
  PLEACH_TRY(check_lender(rank, channel));
  Peer& peer = at_peer(rank);
  post(peer, {.kind = shm::Kind::kRead,
              .place = item,
              .channel = channel,
              .operation = tag.operation,
              .stream = tag.stream,
              .segment = tag.segment});
  wake(peer);
  return ok();
}

Status ShmTransport::release(Rank rank, uint64_t channel, SegmentTag /*tag*/, int32_t place) {
  OwnChannel* const own = find_own(channel);
  PLEACH_CHECK(own != nullptr, "places are released while their channel is open");
  Held& held = own->held[at(rank.value) * at(own->options.places) + at(place)];
  const bool was_lent = held.is_lent;
  held = {};
  if (was_lent) {
    PLEACH_TRY(check_lender(rank, channel));
  }
  uint64_t& owed = own->owed[rank.index()];
  some_.owed += owed == 0 ? 1 : 0;
  owed |= uint64_t{1} << place;
  // Who lent it may wait for nothing else.
  if (was_lent || 2 * std::popcount(owed) >= own->options.places) {
    tell_released(rank, *own);
  }
  return ok();
}

void ShmTransport::tell_released(Rank rank, OwnChannel& own) {
  if (const uint64_t places = take_owed(rank, own); places != 0) {
    Peer& peer = at_peer(rank);
    post(peer, {.kind = shm::Kind::kRelease, .channel = own.options.number, .word = places});
    wake(peer);
  }
}

// The free places that the rank is told of now.
uint64_t ShmTransport::take_owed(Rank rank, OwnChannel& own) {
  const uint64_t places = std::exchange(own.owed[rank.index()], 0);
  some_.owed -= places != 0 ? 1 : 0;
  return places;
}

Status ShmTransport::flush() {
  for (OwnChannel& own : own_.channels) {
    for (int32_t rank = 0; rank < context_.rank_count && some_.owed > 0; ++rank) {
      tell_released(Rank{rank}, own);
    }
  }
  return ok();
}

// Lets the peers forget what this process has freed.
void ShmTransport::forget_freed() {
  const uint64_t freed = freed_peer_regions();
  if (freed == some_.freed_regions) {
    return;
  }
  some_.freed_regions = freed;
  for (const Rank rank : some_.active) {
    Peer& peer = at_peer(rank);
    for (const uint32_t number : peer.reads.regions.take_freed()) {
      post(peer, {.kind = shm::Kind::kForget, .region = number});
    }
  }
}

// Sends what has waited for a peer's memory, or for room in its ring.
void ShmTransport::push_waiting() {
  some_.is_clogged = false;
  for (const Rank rank : some_.active) {
    Peer& peer = at_peer(rank);
    bool has_sent = false;
    while (!peer.backlog.messages.empty() && peer.out.has_room()) {
      peer.out.put(peer.backlog.messages.front());
      peer.backlog.messages.pop_front();
      has_sent = true;
    }
    if (peer.backlog.segment) {
      const Pending pending = *std::exchange(peer.backlog.segment, std::nullopt);
      if (fill(rank, pending.message, pending.pieces)) {
        events_.push_back({.kind = EventKind::kSent,
                           .peer = rank,
                           .channel = pending.message.channel,
                           .tag = pending.message.tag()});
      }
    }
    if (has_sent) {
      wake(peer);
    }
    some_.is_clogged = some_.is_clogged || !peer.backlog.messages.empty();
  }
  some_.clogged_turns = some_.is_clogged ? std::min(some_.clogged_turns + 1, kEagerTurns) : 0;
}

// ---- Receiving.

bool ShmTransport::open_release(Rank rank, const shm::Message& message) {
  if (find_own(message.channel) == nullptr) {
    return true;  // it was open, and the last that was said of it came late
  }
  PeerChannel* const channel = find_channel(at_peer(rank), message.channel);
  for (uint64_t left = message.word; left != 0; left &= left - 1) {
    const auto tag = channel == nullptr ? std::nullopt : channel->release(std::countr_zero(left));
    if (!tag) {
      return false;
    }
    events_.push_back(
        {.kind = EventKind::kReleased, .peer = rank, .channel = message.channel, .tag = *tag});
  }
  return true;
}

// False: the peer broke the protocol.
bool ShmTransport::open_message(Rank rank, const shm::Message& message) {
  OwnChannel* const own = find_own(message.channel);
  const auto tell = [&](EventKind kind) {
    if (own != nullptr) {
      events_.push_back({.kind = kind,
                         .peer = rank,
                         .channel = message.channel,
                         .tag = message.tag(),
                         .fingerprint = message.fingerprint,
                         .item = message.place});
    }
    return true;
  };
  switch (message.kind) {
    case shm::Kind::kRelease:
      return open_release(rank, message);
    case shm::Kind::kData:
    case shm::Kind::kLend:  // to a channel that was open: nobody has waited for it
      return own == nullptr ? own_.closed.contains(message.channel)
                            : open_payload(rank, *own, message);
    case shm::Kind::kForget:
      at_peer(rank).reads.regions.forget(message.region);
      return true;
    case shm::Kind::kReadable:
      at_peer(rank).reads.reads_this = true;
      return true;
    case shm::Kind::kBegin:
      return tell(EventKind::kBegun);
    case shm::Kind::kRead:
      return tell(EventKind::kRead);
  }
  return false;
}

bool ShmTransport::open_payload(Rank rank, OwnChannel& own, const shm::Message& message) {
  if (message.place < 0 || message.place >= own.options.places ||
      message.length > at(own.options.place_bytes)) {
    return false;
  }
  Held& held = own.held[at(rank.value) * at(own.options.places) + at(message.place)];
  if (held.is_taken) {
    return false;
  }
  const bool is_lent = message.kind == shm::Kind::kLend;
  const bool is_remote = is_lent && message.region == 0;
  if (!is_lent && message.word != 0 && !open_release(rank, message)) {
    return false;
  }
  const std::size_t area = at(shm::area_bytes(own.options));
  const std::size_t offset = is_lent ? 0 : message.region * shm::kLine;
  if (offset + message.length > area) {
    return false;
  }
  const std::byte* payload = own.memory.get() + area * rank.index() + offset;
  if (is_remote) {
    if (!at_peer(rank).reads.is_readable) {
      return false;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
    payload = reinterpret_cast<const std::byte*>(message.word);
  } else if (is_lent) {
    held.lent = at_peer(rank).find_lent(message);
    if (held.lent == nullptr) {
      return false;
    }
    payload = held.lent.get();
  }
  held.is_taken = true;
  held.is_lent = is_lent;
  moved_bytes_ += message.length;
  events_.push_back({.kind = EventKind::kArrived,
                     .peer = rank,
                     .channel = message.channel,
                     .tag = message.tag(),
                     .fingerprint = message.fingerprint,
                     .place = message.place,
                     .is_lent = is_lent,
                     .is_remote = is_remote,
                     .payload = {payload, message.length}});
  return true;
}

void ShmTransport::receive(Rank rank) {
  Peer& peer = at_peer(rank);
  if (!peer.in.has_message()) {
    return;
  }
  for (int taken = 0; taken < kMostMessages; ++taken) {
    const std::optional<shm::Message> message = peer.in.take();
    if (!message) {
      break;
    }
    if (!open_message(rank, *message)) {
      return lose(rank, "it broke the transport's protocol");
    }
  }
  peer.in.finish();
}

// ---- Waiting.

void ShmTransport::interrupt() {
  ready_.is_interrupted.store(true);
  signal_event(own_.interrupts.get());
}

bool ShmTransport::has_work() const {
  if (ready_.is_interrupted.load(std::memory_order_relaxed)) {
    return true;
  }
  return std::ranges::any_of(some_.active,
                             [this](Rank rank) { return peers_[rank.index()].in.has_message(); });
}

Status ShmTransport::wait(TimePoint deadline, bool is_eager) {
  Status status = ok();
  if (++ready_.waits % kWaitsPerLook == 0) {
    status = look(0);
  }
  int32_t asks = 0;
  const auto has_something = [&] {
    const bool looks = context_.beside >= 0 && ++asks % patience_.asks_per_look() == 0;
    status = looks ? look(0) : status;
    return !status || ready_.seen.has_some() || has_work();
  };
  const bool may_spin = is_eager && deadline > TimePoint::min();
  if (has_something() || (may_spin && patience_.spin_until(has_something))) {
    ready_.is_interrupted.store(false);
    return status;
  }
  if (!is_eager && deadline == TimePoint::min() && !has_events()) {
    return status;  // it comes again soon, and the sockets have their turn once in so many waits
  }
  control().is_asleep.store(1);
  if (!has_work()) {  // else a peer wrote before it could see the sleep
    status = look(milliseconds_until(deadline, context_.clock->now()));
  }
  control().is_asleep.store(0);
  ready_.is_interrupted.store(false);
  return status;
}

Status ShmTransport::handle(const epoll_event& event) {
  if (event.data.u64 >= Meeting::kFirstTag) {
    return meeting_.handle(event.data.u64, event.events);
  }
  if (event.data.u64 >= kFailure) {
    return ok();  // progress() looks at the rings, and at the epoch; who gave it, at kBeside
  }
  const Rank rank{static_cast<int32_t>(event.data.u64)};
  Peer& peer = at_peer(rank);
  if (!peer.socket.is_open()) {
    return ok();  // lost by an earlier event of the same batch
  }
  if (peer.shared == nullptr) {
    hear_hello(rank);
    return ok();
  }
  if (peer.reads.regions.take_offers(peer.socket.get())) {
    return ok();
  }
  // It has left. What it said before comes first: what its ring holds, as others may write there.
  for (uint64_t left = shm::Ring::kCells / kMostMessages; left > 0 && !peer.is_lost(); --left) {
    receive(rank);
  }
  lose(rank, "its connection closed");
  return ok();
}

Status ShmTransport::progress(std::vector<TransportEvent>& events) {
  PLEACH_TRY(context_.epoch->check());
  if (meeting_.expiry() < TimePoint::max()) {
    PLEACH_TRY(meeting_.tick(context_.clock->now()));
  }
  for (const epoll_event& event : ready_.seen.take()) {
    PLEACH_TRY(handle(event));
  }
  for (std::size_t i = 0; i < some_.active.size(); ++i) {
    receive(some_.active[i]);  // may lose it: another stands there then, and has its turn next time
  }
  if (some_.lack) {
    return *some_.lack;
  }
  forget_freed();
  if (some_.is_clogged) {
    push_waiting();
  }
  if (events.empty()) {
    events.swap(events_);
  } else {
    events.insert(events.end(), events_.begin(), events_.end());
    events_.clear();
  }
  return ok();
}

}  // namespace

extern const TransportKind kShmTransport = {
    .name = "shm",
    .summary = "memory that the ranks of one host share",
    .spans_processes = true,
    .create = create_listening<ShmTransport>,
};

}  // namespace pleach
