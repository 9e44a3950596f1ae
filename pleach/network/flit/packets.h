// Packets: those in a network, and what each does at the routers on its way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {

// All of a packet is together, in as few cache lines as its hops fit. Numbers of removed packets
// are used again, the last one first.
//   Hop  an enumeration, as wide as a hop's number needs: not a character, which could be anything
//        else, too
template <typename Hop>
class Packets {
 public:
  struct Header {
    uint32_t length = 0;         // flits
    uint32_t supplied = 0;       // flits that may be sent and have not been
    uint32_t next = UINT32_MAX;  // packet behind it in an interface's queue
    int32_t priority = 0;
  };

  uint32_t add(std::span<const uint16_t> hops, const Header& header) {
    if (sizeof(Header) + (1 + hops.size()) * sizeof(Hop) > units_ * sizeof(Unit)) {
      widen(sizeof(Header) + (1 + hops.size()) * sizeof(Hop));
    }
    if (unused_.empty()) {
      grow();
    }
    const uint32_t packet = unused_.back();
    unused_.pop_back();
    this->header(packet) = header;
    Hop* record = hops_of(packet);
    *record = Hop{};
    for (const uint16_t hop : hops) {
      *++record = static_cast<Hop>(hop);
    }
    return packet;
  }
  void remove(uint32_t packet) { unused_.push_back(packet); }
  int64_t count() const { return int64_t{count_} - static_cast<int64_t>(unused_.size()); }

  Header& header(uint32_t packet) { return records_[packet * units_].header; }
  const Header& header(uint32_t packet) const { return records_[packet * units_].header; }
  struct Step {
    uint16_t hop = 0;
    uint32_t length = 0;
    int32_t priority = 0;
  };
  // The next hop, which is passed with this, and what else is known of the packet.
  Step take_hop(uint32_t packet) {
    Unit* record = &records_[packet * units_];
    Hop* hops = record[1].hops;
    const auto passed = static_cast<uint16_t>(static_cast<uint16_t>(hops[0]) + 1U);
    hops[0] = static_cast<Hop>(passed);
    return {static_cast<uint16_t>(hops[passed]), record->header.length, record->header.priority};
  }
  void prefetch(uint32_t packet) const { __builtin_prefetch(&records_[packet * units_], 1); }

 private:
  // A header, or hops: the number of those passed, and all of them.
  union alignas(16) Unit {
    Header header;
    Hop hops[16 / sizeof(Hop)];
    Unit() : header() {}
  };

  Hop* hops_of(uint32_t packet) { return records_[packet * units_ + 1].hops; }
  void grow() {
    const uint32_t first = count_;
    count_ = first == 0 ? 64 : 2 * first;
    PLEACH_CHECK(count_ <= uint32_t{1} << 30U, "too many packets at once");
    records_.resize(count_ * units_);
    for (uint32_t packet = count_; packet-- > first;) {
      unused_.push_back(packet);
    }
  }
  // Records of a power of two of units lie in as few lines as they can.
  void widen(std::size_t bytes) {
    std::size_t units = units_;
    while (units * sizeof(Unit) < bytes) {
      units *= 2;
    }
    std::vector<Unit> wider(count_ * units);
    for (std::size_t packet = 0; packet < count_; ++packet) {
      std::copy_n(&records_[packet * units_], units_, &wider[packet * units]);
    }
    records_ = std::move(wider);
    units_ = units;
  }

  std::size_t units_ = 2;  // of a record
  uint32_t count_ = 0;     // of records
  std::vector<Unit> records_;
  std::vector<uint32_t> unused_;
};

}  // namespace pleach
