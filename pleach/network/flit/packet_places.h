// PacketPlaces: the credits of one virtual channel of a link.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pleach/network/flit/packet_fifo.h"

namespace pleach {

// The buffer at the end of a link has places, each of which holds a packet. Streams that use it
// join it first, and each of them has a place of its own: another one may take it only where every
// stream that holds none would still find one. So what waits in the buffer never keeps a stream
// from its next packet (docs/network.md). Nor does a stream that gets on slowly keep the others
// that have packets to send from all places but those: beyond an equal share of them it takes one
// only where a sixteenth of all, at least one, stays free.
class PacketPlaces {
 public:
  static constexpr int32_t kNobody = -1;

  explicit PacketPlaces(int32_t places) : places_(places) {}

  bool may_join() const { return free() > 0; }
  // Where a stream may wait for those before it (docs/network.md): the next place that they give
  // back is its own, until when the stream is owed one.
  bool may_owe() const { return streams_ < places_; }
  // Returns whether it is.
  bool join(int32_t stream) {
    ++streams_;
    ++empty_handed_;
    if (free() < 0) {
      owed_.push(stream);
    }
    return free() < 0;
  }
  // A stream that holds none, and is owed none. Returns whom nothing is owed any more, or kNobody.
  int32_t quit() {
    --streams_;
    --empty_handed_;
    return settle();
  }
  // By a stream that has joined, holds `held` and is owed none.
  bool may_take(int32_t held) const {
    if (held == 0) {
      return true;
    }
    const int32_t spare = held < share() ? 0 : std::max(1, places_ / kSpareParts);
    return free() > (is_shared() ? spare : 0);
  }
  void take(int32_t held) {
    ++used_;
    empty_handed_ -= held == 0 ? 1 : 0;
  }
  // Returns as quit() does.
  int32_t give_back(int32_t held) {
    --used_;
    empty_handed_ += held == 1 ? 1 : 0;
    return settle();
  }
  // A stream that has joined has packets to send, or none any more.
  void start_sending() { ++senders_; }
  void stop_sending() { --senders_; }
  bool is_shared() const { return senders_ > 1; }
  int32_t share() const { return places_ / std::max(1, senders_); }  // if all are equal
  int32_t used() const { return used_; }
  int32_t places() const { return places_; }

 private:
  static constexpr int32_t kSpareParts = 16;

  // That nobody holds, nor has for its own; less than 0: so many are owed.
  int32_t free() const { return places_ - used_ - empty_handed_; }
  int32_t settle() {
    return static_cast<int32_t>(owed_.size()) > std::max(0, -free()) ? owed_.pop() : kNobody;
  }

  int32_t places_;
  int32_t used_ = 0;
  int32_t streams_ = 0;
  int32_t senders_ = 0;       // of these
  int32_t empty_handed_ = 0;  // streams that hold none
  PacketFifo<int32_t> owed_;  // of these, those for whom there is none yet
};

}  // namespace pleach
