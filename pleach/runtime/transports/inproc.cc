// inproc: the ranks are threads of one process; segments are copied through queues.
#include <fmt/format.h>
#include <poll.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/local_store.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/ledger.h"

namespace pleach {
namespace {

// What one rank puts into another's mailbox.
struct Letter {
  enum class Kind : uint8_t { kBegin, kData, kRelease, kLeft };
  Kind kind = Kind::kBegin;
  Rank from = {};
  BeginNotice notice = {};  // kBegin; of the others, the sequence
  SegmentTag tag = {};
  std::vector<std::byte> payload = {};
};

class Mailbox {
 public:
  Mailbox() : arrived_(make_event()) {}

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
  int descriptor() const { return arrived_.get(); }

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;
  Descriptor arrived_;
};

struct Hub {
  explicit Hub(int32_t rank_count) : mailboxes(at(rank_count)) {}
  std::vector<Mailbox> mailboxes;  // by rank
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(const TransportContext& context, std::shared_ptr<Hub> hub)
      : context_(context),
        hub_(std::move(hub)),
        ledger_(context.rank_count),
        has_left_(hub_->mailboxes.size()) {}
  InprocTransport(const InprocTransport&) = delete;
  InprocTransport& operator=(const InprocTransport&) = delete;
  ~InprocTransport() override {
    for (Mailbox& mailbox : hub_->mailboxes) {
      mailbox.put({.kind = Letter::Kind::kLeft, .from = context_.rank});
    }
  }

  Status begin(const TransportOperation& operation) override;
  Status send(Rank peer, SegmentTag tag,
              std::span<const std::span<const std::byte>> pieces) override;
  Status release(Rank peer, SegmentTag tag, int32_t place) override;
  Status poll(std::vector<TransportEvent>& events, TimePoint deadline) override;

 private:
  Mailbox& mailbox(Rank rank) { return hub_->mailboxes[rank.index()]; }
  void open(Letter letter);
  void land(Letter letter);
  void lose(Rank peer);

  TransportContext context_;
  std::shared_ptr<Hub> hub_;
  Ledger ledger_;
  std::vector<bool> has_left_;                                         // by rank
  std::map<std::pair<Rank, int32_t>, std::vector<std::byte>> landed_;  // by peer and place
  std::vector<TransportEvent> events_;
};

Status InprocTransport::begin(const TransportOperation& operation) {
  events_.clear();
  landed_.clear();
  ledger_.begin(operation, events_);
  for (const Rank peer : ledger_.peers()) {
    if (has_left_[peer.index()]) {
      lose(peer);
    }
    mailbox(peer).put(
        {.kind = Letter::Kind::kBegin, .from = context_.rank, .notice = ledger_.notice_for(peer)});
  }
  return ok();
}

Status InprocTransport::send(Rank peer, SegmentTag tag,
                             std::span<const std::span<const std::byte>> pieces) {
  Letter letter{.kind = Letter::Kind::kData,
                .from = context_.rank,
                .notice = {.sequence = ledger_.sequence()},
                .tag = tag};
  for (const std::span<const std::byte> piece : pieces) {
    letter.payload.insert(letter.payload.end(), piece.begin(), piece.end());
  }
  mailbox(peer).put(std::move(letter));
  events_.push_back({.kind = TransportEvent::Kind::kSent, .peer = peer, .tag = tag});
  return ok();
}

Status InprocTransport::release(Rank peer, SegmentTag tag, int32_t place) {
  landed_.erase({peer, place});
  ledger_.free_place(peer, place);
  mailbox(peer).put({.kind = Letter::Kind::kRelease,
                     .from = context_.rank,
                     .notice = {.sequence = ledger_.sequence()},
                     .tag = tag});
  return ok();
}

void InprocTransport::lose(Rank peer) {
  events_.push_back(
      {.kind = TransportEvent::Kind::kLost, .peer = peer, .reason = "it left the process's group"});
}

void InprocTransport::land(Letter letter) {
  const Rank peer = letter.from;
  const int32_t place = ledger_.take_place(peer);
  const bool is_allowed = ledger_.is_current(letter.notice.sequence) && place >= 0 &&
                          std::ssize(letter.payload) <= ledger_.landing(peer).place_bytes;
  PLEACH_CHECK(is_allowed, "a sender keeps to the landing places it was granted");
  std::vector<std::byte>& memory = landed_[{peer, place}];
  memory = std::move(letter.payload);
  events_.push_back({.kind = TransportEvent::Kind::kArrived,
                     .peer = peer,
                     .tag = letter.tag,
                     .place = place,
                     .payload = memory});
}

void InprocTransport::open(Letter letter) {
  switch (letter.kind) {
    case Letter::Kind::kBegin:
      return ledger_.hear(letter.from, letter.notice, events_);
    case Letter::Kind::kData:
      return land(std::move(letter));
    case Letter::Kind::kRelease:
      if (ledger_.is_current(letter.notice.sequence)) {
        events_.push_back(
            {.kind = TransportEvent::Kind::kReleased, .peer = letter.from, .tag = letter.tag});
      }
      return;
    case Letter::Kind::kLeft:
      has_left_[letter.from.index()] = true;
      if (ledger_.is_peer(letter.from)) {
        lose(letter.from);
      }
  }
}

Status InprocTransport::poll(std::vector<TransportEvent>& events, TimePoint deadline) {
  while (true) {
    if (const std::optional<Failure> failure = context_.store->failure()) {
      return Error{ErrorCode::kPeerLost, failure->message};
    }
    for (Letter& letter : mailbox(context_.rank).take()) {
      open(std::move(letter));
    }
    const TimePoint now = context_.clock->now();
    if (!events_.empty() || now >= deadline) {
      events.insert(events.end(), events_.begin(), events_.end());
      events_.clear();
      return ok();
    }
    std::array<pollfd, 2> waiting = {pollfd{mailbox(context_.rank).descriptor(), POLLIN, 0},
                                     pollfd{context_.store->failure_descriptor(), POLLIN, 0}};
    ::poll(waiting.data(), waiting.size(), milliseconds_until(deadline, now));
  }
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
