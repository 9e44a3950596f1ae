// PacketPlaces: the credits of one virtual channel of a link.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pleach {

// The buffer at the end of a link has places, each of which holds a packet. Streams that use it
// join it first, and each of them has a place of its own: another one may take it only where every
// stream that holds none would still find one. So what waits in the buffer never keeps a stream
// from its next packet (docs/network.md). Nor does a stream that gets on slowly keep the others
// from all places but those: beyond an equal share of them it takes one only where a sixteenth of
// all, at least one, stays free.
class PacketPlaces {
 public:
  explicit PacketPlaces(int32_t places) : places_(places) {}

  bool may_join() const { return free() > 0; }
  void join() {
    ++streams_;
    ++empty_handed_;
  }
  // A stream that holds none.
  void quit() {
    --streams_;
    --empty_handed_;
  }
  // By a stream that has joined and holds `held`.
  bool may_take(int32_t held) const {
    if (held == 0) {
      return true;
    }
    const int32_t spare = held < places_ / streams_ ? 0 : std::max(1, places_ / kSpareParts);
    return free() > (streams_ == 1 ? 0 : spare);
  }
  void take(int32_t held) {
    ++used_;
    empty_handed_ -= held == 0 ? 1 : 0;
  }
  void give_back(int32_t held) {
    --used_;
    empty_handed_ += held == 1 ? 1 : 0;
  }
  bool is_shared() const { return streams_ > 1; }
  int32_t used() const { return used_; }
  int32_t places() const { return places_; }

 private:
  static constexpr int32_t kSpareParts = 16;

  // That nobody holds, nor has for its own.
  int32_t free() const { return places_ - used_ - empty_handed_; }

  int32_t places_;
  int32_t used_ = 0;
  int32_t streams_ = 0;
  int32_t empty_handed_ = 0;  // streams that hold none
};

}  // namespace pleach
