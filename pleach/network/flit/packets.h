// Packets: those in a network, and what each does at the routers on its way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {

// What routers read of a packet is together, in as few cache lines as its hops fit. Numbers of
// removed packets are used again, the last one first.
class Packets {
 public:
  uint32_t add(std::span<const uint16_t> hops, uint32_t length, int32_t priority,
               uint32_t supplied) {
    if (kHops + hops.size() > lines_ * kLine) {
      widen((kHops + hops.size() + kLine - 1) / kLine);
    }
    if (unused_.empty()) {
      grow();
    }
    const uint32_t packet = unused_.back();
    unused_.pop_back();
    uint16_t* record = record_of(packet);
    record[kHop] = 0;
    record[kLengthLow] = static_cast<uint16_t>(length);
    record[kLengthHigh] = static_cast<uint16_t>(length >> 16U);
    for (std::size_t hop = 0; hop < hops.size(); ++hop) {
      record[kHops + hop] = hops[hop];
    }
    queued_[packet] = {supplied, UINT32_MAX, priority};
    return packet;
  }
  void remove(uint32_t packet) { unused_.push_back(packet); }
  int64_t count() const {
    return static_cast<int64_t>(queued_.size()) - static_cast<int64_t>(unused_.size());
  }

  // The next hop, which is passed with this.
  uint16_t take_hop(uint32_t packet) {
    uint16_t* record = record_of(packet);
    return record[kHops + record[kHop]++];
  }
  uint32_t length(uint32_t packet) const {
    const uint16_t* record = record_of(packet);
    return record[kLengthLow] | uint32_t{record[kLengthHigh]} << 16U;
  }
  void prefetch(uint32_t packet) const { __builtin_prefetch(record_of(packet), 1); }

  // While it is in an interface's queue.
  struct Queued {
    uint32_t supplied = 0;       // flits that may be sent and have not been
    uint32_t next = UINT32_MAX;  // packet behind it
    int32_t priority = 0;        // as long as it lives
  };
  Queued& queued(uint32_t packet) { return queued_[packet]; }
  const Queued& queued(uint32_t packet) const { return queued_[packet]; }

 private:
  static constexpr std::size_t kLine = 32;  // numbers in a cache line
  enum Field : uint8_t { kHop, kLengthLow, kLengthHigh, kHops };
  struct alignas(64) Line {
    uint16_t numbers[kLine];
  };

  uint16_t* record_of(uint32_t packet) { return records_[packet * lines_].numbers; }
  const uint16_t* record_of(uint32_t packet) const { return records_[packet * lines_].numbers; }
  void grow() {
    const auto first = static_cast<uint32_t>(queued_.size());
    const uint32_t count = first == 0 ? 64 : first;
    PLEACH_CHECK(first < uint32_t{1} << 29U, "too many packets at once");
    queued_.resize(first + count);
    records_.resize(queued_.size() * lines_);
    for (uint32_t packet = first + count; packet-- > first;) {
      unused_.push_back(packet);
    }
  }
  void widen(std::size_t lines) {
    std::vector<Line> wider(queued_.size() * lines);
    for (std::size_t packet = 0; packet < queued_.size(); ++packet) {
      for (std::size_t line = 0; line < lines_; ++line) {
        wider[packet * lines + line] = records_[packet * lines_ + line];
      }
    }
    records_ = std::move(wider);
    lines_ = lines;
  }

  std::size_t lines_ = 1;  // of a record
  std::vector<Line> records_;
  std::vector<Queued> queued_;
  std::vector<uint32_t> unused_;
};

}  // namespace pleach
