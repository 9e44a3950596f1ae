// tcp: one connection per pair of ranks that talk, for all channels; it is one socket or several,
// each by interfaces of its own where there are several.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/create_listening.h"
#include "pleach/runtime/transports/meeting_options.h"
#include "pleach/runtime/transports/patience.h"
#include "pleach/runtime/transports/place_pool.h"
#include "pleach/runtime/transports/seen_events.h"
#include "pleach/runtime/transports/tcp_connection.h"

namespace pleach {
namespace {

using Kind = TransportEvent::Kind;

// epoll tags: a rank, a rank's other sockets, one of these, or the meeting's.
constexpr uint64_t kOtherLane = uint64_t{1} << 31;  // and the rank
constexpr uint64_t kFailure = uint64_t{1} << 32;
constexpr uint64_t kAlarm = kFailure + 1;

// Frames and payloads of one connection before the others have their turn.
constexpr int kMostReads = 64;
constexpr int64_t kMostSockets = 16;
constexpr const char* kClosed = "its connection closed";

// How a rank is found: "2 nonce host:port host:port": with two sockets a peer, at these addresses.
struct Entry {
  int64_t lanes = 1;
  uint64_t nonce = 0;
  std::vector<Address> addresses;
};

// A number, which no name server is asked about.
bool is_number(std::string_view host) {
  const std::string number(host.substr(0, host.find('%')));  // without the scope of an IPv6 one
  in6_addr bytes;
  return inet_pton(AF_INET, number.c_str(), &bytes) == 1 ||
         inet_pton(AF_INET6, number.c_str(), &bytes) == 1;
}

Result<Entry> parse_entry(std::string_view text, Rank rank) {
  const std::vector<std::string_view> parts = split(text, ' ');
  const Error error = no_address(rank, text);
  Entry entry;
  if (parts.size() < 3 ||
      std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), entry.nonce).ec !=
          std::errc()) {
    return error;
  }
  PLEACH_SET(entry.lanes, parse_integer(parts[0], "sockets of a rank", 1, kMostSockets));
  for (const std::string_view part : std::span(parts).subspan(2)) {
    PLEACH_ASSIGN(address, parse_address(part, "address of a rank"));
    if (!is_number(address.host)) {
      return error;
    }
    entry.addresses.push_back(std::move(address));
  }
  return entry;
}

// As the options say, else the environment.
Result<uint16_t> count_lanes(const std::optional<Options>& options) {
  int64_t count = options ? options->integer("sockets") : 0;
  const char* const variable = std::getenv("PLEACH_SOCKETS");
  if (count == 0) {
    PLEACH_SET(count, parse_integer(variable == nullptr ? "1" : variable, "PLEACH_SOCKETS", 1,
                                    kMostSockets));
  }
  return static_cast<uint16_t>(count);
}

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context)
      : context_(context),
        landing_{PlacePool(context.rank_count)},
        peers_(at(context.rank_count)),
        ready_{.patience = Patience::for_ranks(context.ranks_on_host())} {}

  Status listen();
  void set_sink(Sink& sink) override { landing_.sink = &sink; }
  Status open(const ChannelOptions& channel) override {
    landing_.places.open(channel);
    return ok();
  }
  void abandon(uint64_t channel) override;
  void close(uint64_t channel) override;
  std::string address() const override { return reach_.address; }
  Status introduce(Rank peer, std::string_view address) override;
  Status connect(Rank peer) override;
  void note_departure(Rank peer) override {
    peers_[peer.index()].has_left = true;
    if (!connection(peer).is_open() || !watch_first(peer)) {
      lose(peer, kHasLeft);
    }
  }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation, uint64_t fingerprint) override;
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override;
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override;
  bool holds_back() const override { return !due_.held_back.empty(); }
  Status flush() override;
  bool has_events() const override { return !events_.empty() || !due_.unread.empty(); }
  TimePoint expiry() const override { return meeting_.expiry(); }
  void interrupt() override { signal_event(ready_.alarm.get()); }
  Status wait(TimePoint deadline, bool is_eager) override;
  Status progress(std::vector<TransportEvent>& events) override;
  uint64_t moved_bytes() const override { return moved_bytes_; }
  int descriptor() const override { return epoll_.get(); }

 private:
  struct Peer {
    tcp::Connection connection;
    Entry entry = {};      // where it listens
    int32_t releases = 0;  // held back
    bool has_left = false;
  };
  // Where segments go.
  struct Landing {
    PlacePool places;
    Sink* sink = nullptr;
  };
  // Ranks that something is to be done for.
  struct Due {
    std::vector<Rank> held_back;  // releases are to be sent to them
    std::vector<Rank> unread;     // more is here of them than epoll knows
  };
  // What wait() saw, and for how long it looks.
  struct Ready {
    Patience patience;
    SeenEvents seen = {};
    Descriptor alarm = {};
  };
  tcp::Connection& connection(Rank rank) { return peers_[rank.index()].connection; }
  void meet(Rank peer, uint16_t lane, Wire wire);
  Status look(int milliseconds) { return ready_.seen.look(epoll_.get(), milliseconds); }
  Status handle(const epoll_event& event);
  Status watch_first(Rank peer);
  Result<std::optional<tcp::Sending>> write(Rank peer);
  Status write_and_tell(Rank peer);
  void receive(Rank peer);
  void receive_parts(Rank peer);
  bool open_frames(Rank peer);
  bool open_frame(Rank peer, const tcp::Frame& frame);
  void lose(Rank peer, const char* reason);

  // Where this rank is reached, and by how many sockets.
  struct Reach {
    std::string address;
    std::vector<std::string> hosts;
    uint16_t lanes = 1;
  };

  TransportContext context_;
  Reach reach_;
  Landing landing_;
  std::vector<Peer> peers_;  // by rank
  Due due_;
  Descriptor epoll_;
  Meeting meeting_;
  Ready ready_;
  std::vector<TransportEvent> events_;
  uint64_t moved_bytes_ = 0;
};

Status TcpTransport::listen() {
  PLEACH_SET(reach_.lanes, count_lanes(context_.options));
  reach_.hosts = context_.store->local_addresses();
  reach_.hosts.resize(std::min<std::size_t>(reach_.hosts.size(), reach_.lanes));
  PLEACH_SET(epoll_, make_epoll());
  ready_.alarm = make_event();
  const uint64_t nonce = make_nonce();
  reach_.address = fmt::format("{} {}", reach_.lanes, nonce);
  std::vector<Descriptor> listeners;
  for (const std::string& host : reach_.hosts) {
    PLEACH_ASSIGN(listener, listen_on({host, 0}));
    PLEACH_ASSIGN(address, local_address(listener.get()));
    listeners.push_back(std::move(listener));
    reach_.address += " " + to_text(Address{host, address.port});
  }
  Meeting::Options options = meeting_options(context_, Purpose::kTcp, nonce, epoll_.get());
  options.lanes = reach_.lanes;
  PLEACH_TRY(meeting_.open(
      std::move(options), std::move(listeners.front()),
      [this](Rank peer, uint16_t lane, Wire wire) { meet(peer, lane, std::move(wire)); },
      [this](Rank peer, const char* reason) { lose(peer, reason); }));
  for (Descriptor& listener : std::span(listeners).subspan(1)) {
    PLEACH_TRY(meeting_.also_listen(std::move(listener)));
  }
  PLEACH_TRY(watch(epoll_.get(), ready_.alarm.get(), EPOLLIN, kAlarm));
  return watch(epoll_.get(), context_.epoch->descriptor(), EPOLLIN, kFailure);
}

// Other channels go on over the same connections: a message that has begun to leave does so to its
// end, and the rest of one that has begun to come goes nowhere.
void TcpTransport::abandon(uint64_t channel) {
  for (int32_t rank = 0; rank < context_.rank_count; ++rank) {
    tcp::Inbox& in = connection(Rank{rank}).in();
    if (in.has_payload() && in.arriving().frame.channel == channel) {
      in.drop_payload();
    }
    tcp::Outbox& out = connection(Rank{rank}).out();
    const std::optional<tcp::Sending> sending = out.sending();
    if (sending && sending->channel == channel && out.release_memory()) {
      events_.push_back(
          {.kind = Kind::kSent, .peer = Rank{rank}, .channel = channel, .tag = sending->tag});
    }
  }
}

void TcpTransport::close(uint64_t channel) {
  abandon(channel);
  landing_.places.close(channel);
}

Status TcpTransport::introduce(Rank peer, std::string_view address) {
  PLEACH_ASSIGN(entry, parse_entry(address, peer));
  if (entry.lanes != reach_.lanes) {
    return invalid(fmt::format("rank {} has sockets={}, rank {} has sockets={} (PLEACH_SOCKETS)",
                               context_.rank.value, reach_.lanes, peer.value, entry.lanes));
  }
  peers_[peer.index()].entry = std::move(entry);
  return ok();
}

// The lower rank of a pair listens. The k-th socket goes by the k-th of its addresses and the k-th
// of the peer's.
Status TcpTransport::connect(Rank peer) {
  if (peer > context_.rank || connection(peer).is_open() || connection(peer).is_lost()) {
    return ok();
  }
  const Entry& entry = peers_[peer.index()].entry;
  PLEACH_CHECK(!entry.addresses.empty(), "a peer that nobody has introduced");
  const std::size_t ways = std::min(reach_.hosts.size(), entry.addresses.size());
  for (uint16_t lane = 0; lane < reach_.lanes; ++lane) {
    const std::string from = ways > 1 ? reach_.hosts[lane % ways] : "";
    PLEACH_TRY(meeting_.approach(
        peer, lane, entry.nonce,
        [to = entry.addresses[lane % ways], from] { return start_connect(to, from); }));
  }
  return ok();
}

void TcpTransport::meet(Rank peer, uint16_t lane, Wire wire) {
  tcp::Connection& to = connection(peer);
  unwatch(epoll_.get(), wire.socket());
  if (to.is_lost() || !to.adopt(std::move(wire), lane, reach_.lanes) || !to.is_open()) {
    return;
  }
  // It is writable at once: what has waited for it goes then.
  bool is_watched = watch_first(peer).has_value();
  for (const Wire& other : to.lanes().subspan(1)) {
    is_watched = is_watched && watch(epoll_.get(), other.socket(), EPOLLIN | EPOLLOUT | EPOLLET,
                                     kOtherLane | static_cast<uint64_t>(peer.value));
  }
  if (!is_watched) {
    lose(peer, "its connection broke");
  }
}

// What is to be told of the first socket. The others' news comes once, when there is any.
Status TcpTransport::watch_first(Rank peer) {
  tcp::Connection& of = connection(peer);
  const Wire& first = of.lanes()[0];
  const bool wants_out =
      of.out().is_blocked() && !first.waits_to_read() && !peers_[peer.index()].has_left;
  const uint32_t events = (of.in().has_room() ? EPOLLIN : 0U) | (wants_out ? EPOLLOUT : 0U);
  return of.set_watched(events)
             ? watch(epoll_.get(), first.socket(), events, static_cast<uint64_t>(peer.value))
             : ok();
}

void TcpTransport::lose(Rank peer, const char* reason) {
  if (!connection(peer).is_lost()) {
    connection(peer).close(reason);
    events_.push_back({.kind = Kind::kLost, .peer = peer, .reason = reason});
  }
}

// Writes what is queued for the peer, and the segment that has left, if one has.
Result<std::optional<tcp::Sending>> TcpTransport::write(Rank peer) {
  std::optional<tcp::Sending> sent;
  tcp::Connection& to = connection(peer);
  // Until it has connected. Bytes that it does not read would break what is still to come from it.
  if (!to.is_open() || peers_[peer.index()].has_left) {
    return sent;
  }
  if (std::exchange(peers_[peer.index()].releases, 0) > 0) {
    std::erase(due_.held_back, peer);
  }
  const tcp::Flow flow = to.write(moved_bytes_, sent);
  if (flow == tcp::Flow::kLost) {
    lose(peer, "its connection broke");
    return sent;
  }
  PLEACH_TRY(watch_first(peer));
  return sent;
}

Status TcpTransport::write_and_tell(Rank peer) {
  PLEACH_ASSIGN(sent, write(peer));
  if (sent) {
    events_.push_back(
        {.kind = Kind::kSent, .peer = peer, .channel = sent->channel, .tag = sent->tag});
  }
  return ok();
}

Status TcpTransport::tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                                uint64_t fingerprint) {
  if (connection(peer).is_lost()) {
    return ok();
  }
  connection(peer).out().queue({.kind = tcp::FrameKind::kBegin,
                                .channel = channel,
                                .operation = operation,
                                .fingerprint = fingerprint});
  return write_and_tell(peer);
}

Result<bool> TcpTransport::send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                                std::span<const std::span<const std::byte>> pieces) {
  if (connection(peer).is_lost()) {
    return false;  // kLost has been told
  }
  connection(peer).out().start({.kind = tcp::FrameKind::kData,
                                .channel = channel,
                                .operation = tag.operation,
                                .fingerprint = fingerprint,
                                .stream = tag.stream,
                                .segment = tag.segment},
                               pieces, reach_.lanes);
  PLEACH_ASSIGN(sent, write(peer));
  return sent.has_value();
}

Status TcpTransport::release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) {
  landing_.places.release(channel, peer, place);
  if (connection(peer).is_lost()) {
    return ok();
  }
  connection(peer).out().queue({.kind = tcp::FrameKind::kRelease,
                                .channel = channel,
                                .operation = tag.operation,
                                .stream = tag.stream,
                                .segment = tag.segment});
  int32_t& releases = peers_[peer.index()].releases;
  if (++releases == 1) {
    due_.held_back.push_back(peer);
  }
  return 2 * releases >= landing_.places.places(channel) ? write_and_tell(peer) : ok();
}

Status TcpTransport::flush() {
  while (!due_.held_back.empty()) {
    const Rank peer = due_.held_back.back();
    peers_[peer.index()].releases = 0;
    due_.held_back.pop_back();
    PLEACH_TRY(write_and_tell(peer));
  }
  return ok();
}

// False: the peer broke the protocol.
bool TcpTransport::open_frame(Rank peer, const tcp::Frame& frame) {
  const bool is_open = landing_.places.is_open(frame.channel);
  switch (frame.kind) {
    case tcp::FrameKind::kBegin:
    case tcp::FrameKind::kRelease:
      if (is_open) {  // else it was, and the last that was said of it came late
        events_.push_back(
            {.kind = frame.kind == tcp::FrameKind::kBegin ? Kind::kBegun : Kind::kReleased,
             .peer = peer,
             .channel = frame.channel,
             .tag = frame.tag(),
             .fingerprint = frame.fingerprint});
      }
      return frame.length == 0;
    case tcp::FrameKind::kData:
      break;
  }
  if (!is_open) {
    connection(peer).in().skip(frame.length, reach_.lanes);
    return landing_.places.was_open(frame.channel);
  }
  const std::optional<int32_t> place = landing_.places.take(frame.channel, peer, frame.length);
  if (!place) {
    return false;
  }
  std::span<std::byte> memory =
      landing_.sink->home(peer, frame.channel, frame.tag(), frame.fingerprint, frame.length);
  if (memory.empty()) {
    memory = landing_.places.memory(frame.channel, peer, *place, frame.length);
  }
  connection(peer).in().expect({frame, *place, memory}, reach_.lanes);
  return true;
}

// Opens all that is here. Otherwise the peer is lost.
bool TcpTransport::open_frames(Rank peer) {
  tcp::Inbox& in = connection(peer).in();
  while (true) {
    if (connection(peer).read_parts(moved_bytes_) == tcp::Flow::kLost) {
      lose(peer, kClosed);
      return false;
    }
    if (const std::optional<tcp::Arriving> arrived = in.take_payload()) {
      events_.push_back({.kind = Kind::kArrived,
                         .peer = peer,
                         .channel = arrived->frame.channel,
                         .tag = arrived->frame.tag(),
                         .fingerprint = arrived->frame.fingerprint,
                         .place = arrived->place,
                         .payload = arrived->payload});
    }
    if (in.has_payload()) {
      return true;
    }
    const std::optional<tcp::FrameBytes> header = in.take_header();
    if (!header) {
      return true;
    }
    const std::optional<tcp::Frame> frame = tcp::parse_frame(*header);
    if (!frame || !open_frame(peer, *frame)) {
      lose(peer, "it broke the transport's protocol");
      return false;
    }
  }
}

void TcpTransport::receive(Rank peer) {
  tcp::Connection& from = connection(peer);
  for (int reads = 0; reads < kMostReads && from.in().has_room(); ++reads) {
    const tcp::Flow flow = from.read(moved_bytes_);
    if (flow == tcp::Flow::kLost) {
      return lose(peer, kClosed);
    }
    if (!open_frames(peer) || flow == tcp::Flow::kBlocked) {
      return;
    }
  }
  if (from.in().has_room() && from.lanes()[0].has_unread()) {
    due_.unread.push_back(peer);
  }
}

// What the other sockets bring may make room for what the first has brought.
void TcpTransport::receive_parts(Rank peer) {
  if (open_frames(peer) && connection(peer).lanes()[0].has_unread()) {
    receive(peer);
  }
}

Status TcpTransport::handle(const epoll_event& event) {
  if (event.data.u64 >= Meeting::kFirstTag) {
    return meeting_.handle(event.data.u64, event.events);
  }
  if (event.data.u64 == kAlarm) {
    clear_event(ready_.alarm.get());
    return ok();
  }
  if (event.data.u64 == kFailure) {
    return ok();  // progress() looks at the epoch
  }
  const Rank peer{static_cast<int32_t>(event.data.u64 & ~kOtherLane)};
  const bool is_other_lane = (event.data.u64 & kOtherLane) != 0;
  if (!connection(peer).is_open()) {
    return ok();  // lost by an earlier event of the same batch
  }
  if ((event.events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    is_other_lane ? receive_parts(peer) : receive(peer);
  }
  if ((event.events & EPOLLOUT) != 0 || connection(peer).waits_to_read()) {
    return write_and_tell(peer);
  }
  return connection(peer).is_open() ? watch_first(peer) : ok();
}

Status TcpTransport::wait(TimePoint deadline, bool is_eager) {
  if (is_eager && deadline > TimePoint::min()) {
    const auto sees = [this]() -> Result<bool> {
      PLEACH_TRY(look(0));
      return ready_.seen.has_some();
    };
    PLEACH_ASSIGN(has_something, ready_.patience.look_until(sees));
    if (has_something) {
      return ok();
    }
  }
  return look(milliseconds_until(deadline, context_.clock->now()));
}

Status TcpTransport::progress(std::vector<TransportEvent>& events) {
  PLEACH_TRY(context_.epoch->check());
  if (meeting_.expiry() < TimePoint::max()) {
    PLEACH_TRY(meeting_.tick(context_.clock->now()));
  }
  for (const epoll_event& event : ready_.seen.take()) {
    PLEACH_TRY(handle(event));
  }
  for (const Rank peer : std::exchange(due_.unread, {})) {
    if (connection(peer).is_open()) {
      receive(peer);
    }
    if (connection(peer).is_open()) {
      PLEACH_TRY(watch_first(peer));
    }
  }
  events.insert(events.end(), events_.begin(), events_.end());
  events_.clear();
  return ok();
}

}  // namespace

extern const TransportKind kTcpTransport = {
    .name = "tcp",
    .summary = "one TCP connection, or several, per pair of ranks that talk",
    .spans_processes = true,
    .spans_hosts = true,
    .options = {{.name = "sockets",
                 .default_value = "0",
                 .summary = "connections of each pair, over several interfaces where there are; "
                            "without it as PLEACH_SOCKETS says, else 1",
                 .least = 1,
                 .most = kMostSockets}},
    .create = create_listening<TcpTransport>,
};

}  // namespace pleach
