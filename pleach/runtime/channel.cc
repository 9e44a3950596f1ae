#include "pleach/runtime/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/runtime/request_fingerprint.h"

namespace pleach {

using Kind = TransportEvent::Kind;

Channel::Channel(const ChannelOptions& options, Transport& transport, std::vector<bool>& sending)
    : options_(options),
      transport_(transport),
      sending_(sending),
      lanes_(sending.size()),
      memory_{transport.reads_peers()
                  ? std::make_unique<Outbox>(static_cast<int32_t>(sending.size()))
                  : nullptr,
              {}},
      peers_(sending.size()) {
  for (Lane& lane : lanes_) {
    lane.free_places = options.places;
  }
}

Channel::~Channel() {
  transport_.close(options_.number);
}

CollectiveRun* Channel::find(uint64_t operation) const {
  for (CollectiveRun* const run : runs_) {
    if (run->operation() == operation) {
      return run;
    }
  }
  return nullptr;
}

// Remembers what the first error is about: events of the same poll may bring others.
Status Channel::note(const CollectiveRun& run, Status status) {
  if (!status) {
    blame(run.operation(), run.culprit());
  }
  return status;
}

void Channel::blame(uint64_t operation, Rank culprit) {
  if (failed_.operation == 0) {
    failed_ = {operation, culprit};
  }
}

Error Channel::broken(const TransportEvent& event, std::string what) {
  blame(event.tag.operation, event.peer);
  return {ErrorCode::kIo, fmt::format("rank {} {}", event.peer.value, what)};
}

Status Channel::start(CollectiveRun& run, const RunSpec& spec, TimePoint now) {
  PLEACH_CHECK(spec.operation == last_.operation + 1, "operations begin in their order");
  last_.operation = spec.operation;
  last_.flight = spec.flight;
  // FNV-1a, of words.
  last_.history = (last_.history ^ shared_part(spec.fingerprint)) * 0x100000001b3;
  runs_.push_back(&run);
  const RunWorld world = {transport_, options_,        lanes_,
                          sending_,   memory_.scratch, memory_.outbox.get()};
  PLEACH_TRY(note(run, run.start(spec, world, now)));
  PLEACH_TRY(check_departed(run));
  for (const Rank peer : run.peers()) {
    const Peer& state = peers_[peer.index()];
    if (state.begun >= spec.operation) {
      const bool is_it = state.begun == spec.operation;
      PLEACH_TRY(tell(run, {.kind = Kind::kBegun,
                            .peer = peer,
                            .channel = options_.number,
                            .tag = {.operation = spec.operation},
                            .fingerprint = is_it ? state.fingerprint : run.fingerprint(peer)}));
    }
  }
  for (const TransportEvent& event : early_) {
    if (event.tag.operation == spec.operation) {
      PLEACH_TRY(tell(run, event));
    }
  }
  std::erase_if(early_,
                [&](const TransportEvent& event) { return event.tag.operation == spec.operation; });
  for (const Rank peer : run.peers()) {  // after what they have sent before
    if (const char* const lost = peers_[peer.index()].lost) {
      PLEACH_TRY(tell(run, {.kind = Kind::kLost, .peer = peer, .reason = lost}));
    }
  }
  PLEACH_TRY(proceed(now));
  last_.unheard_count =
      run.is_done() && !run.peers().empty() ? std::min(last_.unheard_count + 1, 2) : 0;
  return ok();
}

Status Channel::handle_departure(Rank peer, uint64_t ended) {
  peers_[peer.index()].ended = ended;
  for (const CollectiveRun* const run : runs_) {
    PLEACH_TRY(check_departed(*run));
  }
  return ok();
}

// All ranks take part in a collective, so it cannot end once one has left that had not ended it.
Status Channel::check_departed(const CollectiveRun& run) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    if (const auto ended = peers_[rank].ended; ended && *ended < run.operation()) {
      failed_ = {run.operation(), Rank{static_cast<int32_t>(rank)}};
      return Error{ErrorCode::kPeerLost, fmt::format("rank {} has left the job", rank)};
    }
  }
  return ok();
}

Status Channel::tell(CollectiveRun& run, const TransportEvent& event) {
  return note(run, run.handle(event));
}

std::span<std::byte> Channel::find_home(Rank peer, SegmentTag tag, uint64_t fingerprint,
                                        std::size_t bytes) const {
  const CollectiveRun* const run = find(tag.operation);
  return run != nullptr && run->fingerprint(peer) == fingerprint ? run->find_home(peer, tag, bytes)
                                                                 : std::span<std::byte>();
}

Status Channel::handle(const TransportEvent& event) {
  last_.unheard_count = 0;
  if (event.kind == Kind::kLost) {
    peers_[event.peer.index()].lost = event.reason;
    for (CollectiveRun* const run : runs_) {
      PLEACH_TRY(tell(*run, event));
    }
    return ok();
  }
  if (event.kind == Kind::kReleased && ++lanes_[event.peer.index()].free_places > options_.places) {
    return broken(event, "released a landing place that it did not hold");
  }
  if (CollectiveRun* const run = find(event.tag.operation)) {
    return tell(*run, event);
  }
  const bool is_over = event.tag.operation <= last_.operation;
  switch (event.kind) {
    case Kind::kArrived:
      if (is_over) {
        return refuse(event);
      }
      early_.push_back(event);
      break;
    case Kind::kBegun:
      if (is_over) {
        return differs(event) ? refuse(event) : ok();
      }
      if (Peer& peer = peers_[event.peer.index()]; event.tag.operation > peer.begun) {
        peer.begun = event.tag.operation;
        peer.fingerprint = event.fingerprint;
      }
      break;
    default:
      break;  // of an operation whose last segments have left
  }
  return ok();
}

// An operation of this rank that is over, as far as it is known, was another than the peer's.
bool Channel::differs(const TransportEvent& event) const {
  const FlightEntry* const own = last_.flight.find(options_.number, event.tag.operation);
  return own != nullptr && !may_be_one(own->fingerprint, event.fingerprint);
}

// What a peer says of an operation that is over.
Error Channel::refuse(const TransportEvent& event) {
  if (!differs(event)) {
    return broken(
        event, fmt::format("sent a segment of operation {}, which is over", event.tag.operation));
  }
  const Rank self = last_.flight.recorder->rank();
  blame(event.tag.operation, std::max(event.peer, self));
  const FlightEntry* const own = last_.flight.find(options_.number, event.tag.operation);
  return invalid(difference_text(event.peer, event.fingerprint, self, own->fingerprint));
}

Status Channel::proceed(TimePoint now) {
  bool is_over = false;
  for (CollectiveRun* const run : runs_) {
    PLEACH_TRY(note(*run, run->proceed(now)));
    is_over = is_over || run->is_done();
  }
  if (is_over) {
    std::erase_if(runs_, [](const CollectiveRun* run) { return run->is_done(); });
  }
  return ok();
}

void Channel::abandon() {
  for (CollectiveRun* const run : runs_) {
    run->leave();
  }
  runs_.clear();
  transport_.abandon(options_.number);
}

TimePoint Channel::expiry() const {
  TimePoint first = TimePoint::max();
  for (const CollectiveRun* const run : runs_) {
    first = std::min(first, run->expiry());
  }
  return first;
}

}  // namespace pleach
