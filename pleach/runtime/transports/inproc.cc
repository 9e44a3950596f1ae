// inproc: the ranks are threads of one process; segments are copied through queues.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/peer_memory.h"
#include "pleach/runtime/rendezvous/local_store.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/place_pool.h"

namespace pleach {
namespace {

// What one rank puts into another's mailbox.
struct Letter {
  enum class Kind : uint8_t { kBegin, kData, kLend, kRead, kRelease, kLeft };
  Kind kind = Kind::kBegin;
  Rank from = {};
  uint64_t channel = 0;
  SegmentTag tag = {};
  uint64_t fingerprint = 0;
  std::vector<std::byte> payload = {};
  std::span<const std::byte> lent = {};  // kLend
  int32_t item = 0;                      // kRead
};

class Mailbox {
 public:
  bool is_open() const { return arrived_.is_open(); }
  void put(Letter letter) {
    const std::scoped_lock lock(mutex_);
    letters_.push_back(std::move(letter));
    signal_event(arrived_.get());
  }
  std::vector<Letter> take() {
    const std::scoped_lock lock(mutex_);
    clear_event(arrived_.get());
    return std::exchange(letters_, {});
  }
  void interrupt() { signal_event(arrived_.get()); }
  int descriptor() const { return arrived_.get(); }

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;
  const Descriptor arrived_ = make_event();
};

struct Hub {
  explicit Hub(int32_t rank_count) : mailboxes(at(rank_count)) {}
  std::vector<Mailbox> mailboxes;  // by rank
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(const TransportContext& context, std::shared_ptr<Hub> hub)
      : context_(context), hub_(std::move(hub)), places_(context.rank_count) {}
  InprocTransport(const InprocTransport&) = delete;
  InprocTransport& operator=(const InprocTransport&) = delete;
  ~InprocTransport() override {
    for (Mailbox& mailbox : hub_->mailboxes) {
      mailbox.put({.kind = Letter::Kind::kLeft, .from = context_.rank});
    }
  }

  void set_sink(Sink& sink) override { sink_ = &sink; }
  Status open(const ChannelOptions& channel) override {
    places_.open(channel);
    return ok();
  }
  void abandon(uint64_t /*channel*/) override {}  // segments come whole
  void close(uint64_t channel) override { places_.close(channel); }
  std::string address() const override { return {}; }
  Status introduce(Rank /*peer*/, std::string_view /*address*/) override { return ok(); }
  Status connect(Rank /*peer*/) override { return ok(); }
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation, uint64_t fingerprint) override;
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override;
  Result<bool> lend(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::byte> bytes) override;
  Status tell_read(Rank peer, uint64_t channel, SegmentTag tag, int32_t item) override;
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override;
  bool holds_back() const override { return false; }
  Status flush() override { return ok(); }
  bool has_events() const override { return false; }
  void interrupt() override { mailbox(context_.rank).interrupt(); }
  Status wait(TimePoint deadline, bool is_eager) override;
  Status progress(std::vector<TransportEvent>& events) override;

 private:
  Mailbox& mailbox(Rank rank) const { return hub_->mailboxes[rank.index()]; }
  static TransportEvent::Kind kind_of(Letter::Kind kind);
  static TransportEvent event_of(TransportEvent::Kind kind, const Letter& letter);
  TransportEvent land(const Letter& letter);

  TransportContext context_;
  std::shared_ptr<Hub> hub_;
  Sink* sink_ = nullptr;
  PlacePool places_;
};

Status InprocTransport::tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                                   uint64_t fingerprint) {
  mailbox(peer).put({.kind = Letter::Kind::kBegin,
                     .from = context_.rank,
                     .channel = channel,
                     .tag = {.operation = operation},
                     .fingerprint = fingerprint});
  return ok();
}

Result<bool> InprocTransport::send(Rank peer, uint64_t channel, SegmentTag tag,
                                   uint64_t fingerprint,
                                   std::span<const std::span<const std::byte>> pieces) {
  Letter letter{.kind = Letter::Kind::kData,
                .from = context_.rank,
                .channel = channel,
                .tag = tag,
                .fingerprint = fingerprint};
  for (const std::span<const std::byte> piece : pieces) {
    letter.payload.insert(letter.payload.end(), piece.begin(), piece.end());
  }
  mailbox(peer).put(std::move(letter));
  return true;
}

// Threads share all memory; they lend what processes could.
Result<bool> InprocTransport::lend(Rank peer, uint64_t channel, SegmentTag tag,
                                   uint64_t fingerprint, std::span<const std::byte> bytes) {
  if (find_peer_region(bytes) == nullptr) {
    return false;
  }
  mailbox(peer).put({.kind = Letter::Kind::kLend,
                     .from = context_.rank,
                     .channel = channel,
                     .tag = tag,
                     .fingerprint = fingerprint,
                     .lent = bytes});
  return true;
}

Status InprocTransport::tell_read(Rank peer, uint64_t channel, SegmentTag tag, int32_t item) {
  mailbox(peer).put({.kind = Letter::Kind::kRead,
                     .from = context_.rank,
                     .channel = channel,
                     .tag = tag,
                     .item = item});
  return ok();
}

Status InprocTransport::release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) {
  places_.release(channel, peer, place);
  mailbox(peer).put(
      {.kind = Letter::Kind::kRelease, .from = context_.rank, .channel = channel, .tag = tag});
  return ok();
}

// What a letter without a payload tells of.
TransportEvent::Kind InprocTransport::kind_of(Letter::Kind kind) {
  switch (kind) {
    case Letter::Kind::kBegin:
      return TransportEvent::Kind::kBegun;
    case Letter::Kind::kRead:
      return TransportEvent::Kind::kRead;
    default:
      return TransportEvent::Kind::kReleased;
  }
}

TransportEvent InprocTransport::event_of(TransportEvent::Kind kind, const Letter& letter) {
  return {.kind = kind,
          .peer = letter.from,
          .channel = letter.channel,
          .tag = letter.tag,
          .fingerprint = letter.fingerprint,
          .item = letter.item};
}

TransportEvent InprocTransport::land(const Letter& letter) {
  const bool is_lent = letter.kind == Letter::Kind::kLend;
  const std::optional<int32_t> place =
      places_.take(letter.channel, letter.from, letter.payload.size());
  PLEACH_CHECK(place.has_value(), "a sender keeps to the landing places of a channel");
  TransportEvent event = event_of(TransportEvent::Kind::kArrived, letter);
  event.place = *place;
  event.is_lent = is_lent;
  event.payload = letter.lent;
  if (is_lent) {
    return event;
  }
  std::span<std::byte> memory = sink_->home(letter.from, letter.channel, letter.tag,
                                            letter.fingerprint, letter.payload.size());
  if (memory.empty()) {
    memory = places_.memory(letter.channel, letter.from, *place, letter.payload.size());
  }
  std::ranges::copy(letter.payload, memory.begin());
  event.payload = memory;
  return event;
}

Status InprocTransport::wait(TimePoint deadline, bool /*is_eager*/) {
  std::array<pollfd, 2> waiting = {pollfd{mailbox(context_.rank).descriptor(), POLLIN, 0},
                                   pollfd{context_.epoch->descriptor(), POLLIN, 0}};
  ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline, context_.clock->now()));
  return ok();
}

Status InprocTransport::progress(std::vector<TransportEvent>& events) {
  using Kind = TransportEvent::Kind;
  PLEACH_TRY(context_.epoch->check());
  for (const Letter& letter : mailbox(context_.rank).take()) {
    if (letter.kind == Letter::Kind::kLeft) {
      events.push_back(
          {.kind = Kind::kLost, .peer = letter.from, .reason = "it left the process's group"});
    } else if (!places_.is_open(letter.channel)) {
      continue;  // it was open, and this came late
    } else if (letter.kind == Letter::Kind::kData || letter.kind == Letter::Kind::kLend) {
      events.push_back(land(letter));
    } else {
      events.push_back(event_of(kind_of(letter.kind), letter));
    }
  }
  return ok();
}

Result<std::unique_ptr<Transport>> create_inproc(const TransportContext& context) {
  auto* const store = dynamic_cast<LocalStore*>(context.store.get());
  if (store == nullptr) {
    return invalid("transport inproc: the ranks must be threads that share a local store");
  }
  const auto make = [&] { return std::make_shared<Hub>(context.rank_count); };
  auto hub = std::static_pointer_cast<Hub>(store->shared(context.key_prefix + "/inproc", make));
  if (std::ssize(hub->mailboxes) != context.rank_count) {
    return invalid(fmt::format("transport inproc: rank {} counts {} ranks, others {}",
                               context.rank.value, context.rank_count, hub->mailboxes.size()));
  }
  if (!std::ranges::all_of(hub->mailboxes, &Mailbox::is_open)) {
    return out_of_descriptors(fmt::format("have {} ranks in one process", context.rank_count),
                              EMFILE);
  }
  return std::unique_ptr<Transport>(std::make_unique<InprocTransport>(context, std::move(hub)));
}

}  // namespace

extern const TransportKind kInprocTransport = {
    .name = "inproc",
    .summary = "threads of one process, for tests",
    .spans_processes = false,
    .create = create_inproc,
};

}  // namespace pleach
