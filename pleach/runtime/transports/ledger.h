// Ledger: what every transport must remember of one operation: who takes part, who has begun it,
// and which landing places are free.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// What a peer says when it begins an operation.
struct BeginNotice {
  uint64_t sequence = 0;
  uint64_t fingerprint = 0;
  int32_t places = 0;
};

class Ledger {
 public:
  explicit Ledger(int32_t rank_count) : entries_(at(rank_count)) {}

  // Forgets the operation before. Appends the events of peers that have begun this one already.
  void begin(const TransportOperation& operation, std::vector<TransportEvent>& events);
  // The ranks of the current operation, ascending.
  std::span<const Rank> peers() const { return peers_; }
  bool is_peer(Rank rank) const { return entries_[rank.index()].is_peer; }
  bool is_current(uint64_t sequence) const { return sequence == sequence_; }
  uint64_t sequence() const { return sequence_; }
  const Landing& landing(Rank peer) const { return entries_[peer.index()].landing; }
  // What this rank tells the peer.
  BeginNotice notice_for(Rank peer) const {
    return {sequence_, fingerprint_, landing(peer).places};
  }

  // Appends the event that the peer's notice means, or keeps it for an operation to come.
  void hear(Rank peer, const BeginNotice& notice, std::vector<TransportEvent>& events);

  // A free landing place of a peer, now taken; -1: none.
  int32_t take_place(Rank peer);
  void free_place(Rank peer, int32_t place);

 private:
  struct Entry {
    bool is_peer = false;
    Landing landing = {{}, 0, 0};
    std::vector<int32_t> free_places;  // the last is next
    BeginNotice early = {};            // of a later operation
  };

  std::vector<Entry> entries_;  // by rank
  std::vector<Rank> peers_;
  uint64_t sequence_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace pleach
