// tcp: one connection per pair of ranks that talk, landing places granted over it.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/ledger.h"
#include "pleach/runtime/transports/tcp_connection.h"

namespace pleach {
namespace {

using Kind = TransportEvent::Kind;

// epoll tags: a rank, or one of these; the strangers' are numbered from kStrangers on.
constexpr uint64_t kListener = uint64_t{1} << 32;
constexpr uint64_t kJobFailure = kListener + 1;
constexpr uint64_t kStrangers = uint64_t{1} << 33;

constexpr Duration kHelloTime = std::chrono::seconds(10);
// Besides one for every rank.
constexpr std::size_t kMostStrangers = 256;
// Frames and payloads of one connection before the others have their turn.
constexpr int kMostReads = 64;

// Somebody who has connected and not yet said who it is.
struct Stranger {
  Descriptor socket;
  TimePoint expiry;  // to have said it
  tcp::HelloBytes hello = {};
  std::size_t received = 0;
};

// How a rank is found: "host:port nonce" in the store.
std::string address_key(const TransportContext& context, Rank rank) {
  return fmt::format("{}/tcp/{}", context.key_prefix, rank.value);
}

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context)
      : context_(context), ledger_(context.rank_count), connections_(at(context.rank_count)) {}

  Status open();
  Status begin(const TransportOperation& operation) override;
  Status send(Rank peer, SegmentTag tag,
              std::span<const std::span<const std::byte>> pieces) override;
  Status release(Rank peer, SegmentTag tag, int32_t place) override;
  Status poll(std::vector<TransportEvent>& events, TimePoint deadline) override;
  uint64_t moved_bytes() const override { return moved_bytes_; }

 private:
  tcp::Connection& connection(Rank rank) { return connections_[rank.index()]; }
  Status begin_with(Rank peer);
  Status connect_to(Rank peer);
  void accept_all();
  void greet(uint64_t tag);
  void drop_silent_strangers(TimePoint now);
  Status handle(const epoll_event& event);
  Status flush(Rank peer);
  void receive(Rank peer);
  bool open_frame(Rank peer);
  void lose(Rank peer, const char* reason);

  TransportContext context_;
  Ledger ledger_;
  std::vector<tcp::Connection> connections_;  // by rank
  Descriptor listener_, epoll_;
  uint64_t nonce_ = 0;
  std::map<uint64_t, Stranger> strangers_;  // by tag: the oldest first
  uint64_t next_stranger_ = kStrangers;
  std::vector<TransportEvent> events_;
  uint64_t moved_bytes_ = 0;
};

Status TcpTransport::open() {
  PLEACH_SET(epoll_, make_epoll());
  const std::string host = context_.store->local_address();
  PLEACH_SET(listener_, listen_on({host, 0}));
  PLEACH_ASSIGN(address, local_address(listener_.get()));
  // Tells connections of this job from those of another that used the port before.
  Fingerprint nonce;
  nonce.add(static_cast<int64_t>(getpid()));
  nonce.add(static_cast<int64_t>(context_.clock->now().time_since_epoch().count()));
  nonce.add(context_.key_prefix);
  nonce_ = nonce.value();
  PLEACH_TRY(watch(epoll_.get(), listener_.get(), EPOLLIN, kListener));
  if (const int failed = context_.store->failure_descriptor(); failed >= 0) {
    PLEACH_TRY(watch(epoll_.get(), failed, EPOLLIN, kJobFailure));
  }
  return context_.store->set(address_key(context_, context_.rank),
                             fmt::format("{} {}", to_text(Address{host, address.port}), nonce_));
}

Status TcpTransport::begin(const TransportOperation& operation) {
  events_.clear();
  for (const Rank peer : ledger_.peers()) {  // of the operation that is over
    if (connection(peer).in().has_payload()) {
      connection(peer).close("it left a part of a message at the end of an operation");
    }
  }
  ledger_.begin(operation, events_);
  for (const Rank peer : ledger_.peers()) {
    if (connection(peer).is_lost()) {
      lose(peer, connection(peer).lost_reason());
    } else {
      PLEACH_TRY(begin_with(peer));
    }
  }
  return ok();
}

Status TcpTransport::begin_with(Rank peer) {
  const Landing& landing = ledger_.landing(peer);
  connection(peer).in().make_room(landing.places, landing.place_bytes);
  const BeginNotice notice = ledger_.notice_for(peer);
  connection(peer).out().queue({.kind = tcp::FrameKind::kBegin,
                                .place = notice.places,
                                .sequence = notice.sequence,
                                .value = notice.fingerprint});
  // The lower rank of a pair listens.
  if (!connection(peer).has_socket() && peer < context_.rank) {
    return connect_to(peer);
  }
  return flush(peer);
}

Status TcpTransport::connect_to(Rank peer) {
  PLEACH_ASSIGN(entry, context_.store->get(address_key(context_, peer), context_.deadline));
  const std::vector<std::string_view> parts = split(entry, ' ');
  uint64_t nonce = 0;
  if (parts.size() != 2 ||
      std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), nonce).ec !=
          std::errc()) {
    return Error{ErrorCode::kIo, fmt::format("rank {} published {}, which is no address",
                                             peer.value, quoted(entry))};
  }
  PLEACH_ASSIGN(address, parse_address(parts[0], "address of a rank"));
  Result<Descriptor> socket = start_connect(address);
  if (!socket) {
    lose(peer, "it does not accept connections");
    return ok();
  }
  connection(peer).adopt(std::move(socket).value());
  connection(peer).say_hello({nonce, context_.rank.value});
  // Writable when connected.
  return watch(epoll_.get(), connection(peer).socket(), EPOLLIN | EPOLLOUT,
               static_cast<uint64_t>(peer.value));
}

void TcpTransport::accept_all() {
  const auto most = at(context_.rank_count) + kMostStrangers;
  while (true) {
    Stranger stranger{accept_one(listener_.get()), context_.clock->now() + kHelloTime};
    if (!stranger.socket.is_open()) {
      return;
    }
    const uint64_t tag = next_stranger_++;
    if (watch(epoll_.get(), stranger.socket.get(), EPOLLIN, tag)) {
      strangers_.emplace(tag, std::move(stranger));
    }
    if (strangers_.size() > most) {
      const uint64_t oldest = strangers_.begin()->first;
      greet(oldest);  // its hello may be here, unread
      strangers_.erase(oldest);
    }
  }
}

void TcpTransport::drop_silent_strangers(TimePoint now) {
  while (!strangers_.empty() && strangers_.begin()->second.expiry <= now) {
    const uint64_t oldest = strangers_.begin()->first;
    greet(oldest);
    strangers_.erase(oldest);
  }
}

// Reads who a stranger is; whoever is no rank of this job is shown the door.
void TcpTransport::greet(uint64_t tag) {
  const auto found = strangers_.find(tag);
  if (found == strangers_.end()) {
    return;
  }
  Stranger& stranger = found->second;
  const ssize_t count = recv(stranger.socket.get(), stranger.hello.data() + stranger.received,
                             stranger.hello.size() - stranger.received, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count > 0) {
    stranger.received += at(count);
    if (stranger.received < stranger.hello.size()) {
      return;
    }
    const std::optional<tcp::Hello> hello = tcp::parse_hello(stranger.hello);
    if (hello && hello->nonce == nonce_ && hello->rank > context_.rank.value &&
        hello->rank < context_.rank_count) {
      const Rank peer{hello->rank};
      if (!connection(peer).has_socket() && !connection(peer).is_lost()) {
        set_no_delay(stranger.socket.get());
        connection(peer).adopt(std::move(stranger.socket));
        strangers_.erase(found);
        static_cast<void>(watch(epoll_.get(), connection(peer).socket(), EPOLLIN | EPOLLOUT,
                                static_cast<uint64_t>(peer.value)));
        return;
      }
    }
  }
  strangers_.erase(found);
}

void TcpTransport::lose(Rank peer, const char* reason) {
  connection(peer).close(reason);
  if (ledger_.is_peer(peer)) {
    events_.push_back({.kind = Kind::kLost, .peer = peer, .reason = reason});
  }
}

Status TcpTransport::flush(Rank peer) {
  tcp::Connection& to = connection(peer);
  if (!to.has_socket()) {
    return ok();  // until it has connected
  }
  std::optional<SegmentTag> sent;
  const tcp::Progress progress = to.write(moved_bytes_, sent);
  if (sent) {
    events_.push_back({.kind = Kind::kSent, .peer = peer, .tag = *sent});
  }
  if (progress == tcp::Progress::kLost) {
    lose(peer, "its connection broke");
    return ok();
  }
  const bool wants_out = progress == tcp::Progress::kBlocked;
  if (to.set_watching_out(wants_out)) {
    return watch(epoll_.get(), to.socket(), wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN,
                 static_cast<uint64_t>(peer.value));
  }
  return ok();
}

Status TcpTransport::send(Rank peer, SegmentTag tag,
                          std::span<const std::span<const std::byte>> pieces) {
  if (connection(peer).is_lost()) {
    return ok();  // kLost has been or will be reported
  }
  connection(peer).out().start(ledger_.sequence(), tag, pieces);
  return flush(peer);
}

Status TcpTransport::release(Rank peer, SegmentTag tag, int32_t place) {
  ledger_.free_place(peer, place);
  if (connection(peer).is_lost()) {
    return ok();
  }
  connection(peer).out().queue({.kind = tcp::FrameKind::kRelease,
                                .sequence = ledger_.sequence(),
                                .stream = tag.stream,
                                .segment = tag.segment});
  return flush(peer);
}

// Acts on a frame whose header is here. False: the peer broke the protocol.
bool TcpTransport::open_frame(Rank peer) {
  tcp::Connection& from = connection(peer);
  const std::optional<tcp::Frame> frame = from.in().take_header();
  if (!frame || frame->place < 0) {
    return false;
  }
  switch (frame->kind) {
    case tcp::FrameKind::kBegin:
      ledger_.hear(peer, {frame->sequence, frame->value, frame->place}, events_);
      return frame->length == 0;
    case tcp::FrameKind::kRelease:
      if (ledger_.is_current(frame->sequence)) {
        events_.push_back(
            {.kind = Kind::kReleased, .peer = peer, .tag = {frame->stream, frame->segment}});
      }
      return frame->length == 0;
    case tcp::FrameKind::kData:
      break;
  }
  if (!ledger_.is_current(frame->sequence) || !ledger_.is_peer(peer) ||
      frame->length > static_cast<uint64_t>(ledger_.landing(peer).place_bytes)) {
    return false;
  }
  const int32_t place = ledger_.take_place(peer);
  if (place < 0) {
    return false;
  }
  from.in().expect(place, *frame);
  return true;
}

void TcpTransport::receive(Rank peer) {
  tcp::Connection& from = connection(peer);
  for (int reads = 0; reads < kMostReads; ++reads) {
    switch (from.read(moved_bytes_)) {
      case tcp::Progress::kBlocked:
        return;
      case tcp::Progress::kLost:
        return lose(peer, "its connection closed");
      case tcp::Progress::kDone:
        break;
    }
    if (!from.in().has_payload() && !open_frame(peer)) {
      return lose(peer, "it broke the transport's protocol");
    }
    if (from.in().payload_is_complete()) {
      const tcp::Arrived arrived = from.in().take_payload();
      events_.push_back({.kind = Kind::kArrived,
                         .peer = peer,
                         .tag = arrived.tag,
                         .place = arrived.place,
                         .payload = arrived.payload});
    }
  }
}

Status TcpTransport::handle(const epoll_event& event) {
  if (event.data.u64 == kListener) {
    accept_all();
    return ok();
  }
  if (event.data.u64 >= kStrangers) {
    greet(event.data.u64);
    return ok();
  }
  if (event.data.u64 == kJobFailure) {
    return ok();  // poll() looks at the store
  }
  const Rank peer{static_cast<int32_t>(event.data.u64)};
  if (!connection(peer).has_socket()) {
    return ok();  // lost by an earlier event of the same batch
  }
  if (connection(peer).is_connecting() && (event.events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0) {
    if (connect_error(connection(peer).socket()) != 0) {
      lose(peer, "it does not accept connections");
      return ok();
    }
    set_no_delay(connection(peer).socket());
    connection(peer).finish_connecting();
  }
  if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    receive(peer);
  }
  return flush(peer);
}

Status TcpTransport::poll(std::vector<TransportEvent>& events, TimePoint deadline) {
  std::array<epoll_event, 64> ready = {};
  bool has_looked = false;
  while (true) {
    if (const std::optional<Failure> failure = context_.store->failure()) {
      return Error{ErrorCode::kPeerLost, failure->message};
    }
    const TimePoint now = context_.clock->now();
    drop_silent_strangers(now);
    if (has_looked && (!events_.empty() || now >= deadline)) {
      events.insert(events.end(), events_.begin(), events_.end());
      events_.clear();
      return ok();
    }
    const TimePoint expiry =
        strangers_.empty() ? deadline : std::min(deadline, strangers_.begin()->second.expiry);
    const int wait_ms = events_.empty() ? milliseconds_until(expiry, now) : 0;
    const int count =
        epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), wait_ms);
    if (count < 0 && errno != EINTR) {
      return system_error("epoll");
    }
    has_looked = true;
    for (int i = 0; i < count; ++i) {
      PLEACH_TRY(handle(ready[at(i)]));
    }
  }
}

Result<std::unique_ptr<Transport>> create_tcp(const TransportContext& context) {
  auto transport = std::make_unique<TcpTransport>(context);
  PLEACH_TRY(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace

extern const TransportKind kTcpTransport = {
    .name = "tcp",
    .summary = "one TCP connection per pair of ranks that talk",
    .spans_processes = true,
    .create = create_tcp,
};

}  // namespace pleach
