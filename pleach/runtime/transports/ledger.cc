#include "pleach/runtime/transports/ledger.h"

#include <algorithm>

namespace pleach {

void Ledger::begin(const TransportOperation& operation, std::vector<TransportEvent>& events) {
  for (const Rank peer : peers_) {
    Entry& entry = entries_[peer.index()];
    entry.is_peer = false;
    entry.landing = {peer, 0, 0};
    entry.free_places.clear();
  }
  sequence_ = operation.sequence;
  fingerprint_ = operation.fingerprint;
  peers_.assign(operation.targets.begin(), operation.targets.end());
  for (const Landing& landing : operation.landings) {
    peers_.push_back(landing.peer);
    Entry& entry = entries_[landing.peer.index()];
    entry.landing = landing;
    for (int32_t place = landing.places - 1; place >= 0; --place) {
      entry.free_places.push_back(place);
    }
  }
  std::sort(peers_.begin(), peers_.end());
  peers_.erase(std::unique(peers_.begin(), peers_.end()), peers_.end());
  for (const Rank peer : peers_) {
    entries_[peer.index()].is_peer = true;
  }
  for (std::size_t rank = 0; rank < entries_.size(); ++rank) {
    const BeginNotice early = entries_[rank].early;
    if (early.sequence != 0 && early.sequence <= sequence_) {
      entries_[rank].early = {};
      hear(Rank{static_cast<int32_t>(rank)}, early, events);
    }
  }
}

void Ledger::hear(Rank peer, const BeginNotice& notice, std::vector<TransportEvent>& events) {
  if (notice.sequence > sequence_) {
    entries_[peer.index()].early = notice;
    return;
  }
  // A peer that counts on this rank where the schedule does not runs another one.
  const bool agrees =
      notice.sequence == sequence_ && notice.fingerprint == fingerprint_ && is_peer(peer);
  events.push_back(
      {.kind = agrees ? TransportEvent::Kind::kGranted : TransportEvent::Kind::kRefused,
       .peer = peer,
       .place = notice.places});
}

int32_t Ledger::take_place(Rank peer) {
  std::vector<int32_t>& places = entries_[peer.index()].free_places;
  if (places.empty()) {
    return -1;
  }
  const int32_t place = places.back();
  places.pop_back();
  return place;
}

void Ledger::free_place(Rank peer, int32_t place) {
  entries_[peer.index()].free_places.push_back(place);
}

}  // namespace pleach
