// SubnetworkKinds: which subnetworks of a FRED switch are alike, and which flows have a way in
// them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

// Sound subnetworks of a level are alike, and so are those with the same parts dead. A dead part is
// in the way of each flow by itself: a cell of those that have a port at it, a subnetwork of all.
// What a dead cell takes from a subnetwork counts where flows choose the subnetwork: of `2/R1` at
// the choices of level 0.
class SubnetworkKinds {
 public:
  // Of what the first `levels` choices choose between; what is below is sound. Borrows both.
  SubnetworkKinds(const FredSize& size, std::span<const PortFlow> flows, int32_t levels);

  int32_t count() const { return levels_ + 1 + static_cast<int32_t>(faulty_.size()); }
  int32_t outermost() const { return outermost_; }
  bool is_sound(int32_t kind) const { return kind <= levels_; }
  int32_t level_of(int32_t kind) const { return is_sound(kind) ? kind : faulty(kind).level; }
  int32_t sound_of(int32_t level) const { return level; }
  // Of its `choice`-th subnetwork; there are choices.
  int32_t child(int32_t kind, int32_t choice) const;
  // Whether the flow, alone, has a way in it.
  bool carries(int32_t kind, int32_t flow) const {
    return is_sound(kind) || faulty(kind).carries[static_cast<std::size_t>(flow)];
  }
  // Whether the flow has a way by these choices.
  bool carries_by(std::span<const int32_t> choices, int32_t flow) const;

 private:
  struct Faulty {
    int32_t level = 0;
    std::map<int32_t, int32_t> children = {};  // choices that are not sound, and their kinds
    std::vector<bool> carries = {};            // each flow
    bool operator==(const Faulty&) const = default;
  };
  const Faulty& faulty(int32_t kind) const {
    return faulty_[static_cast<std::size_t>(kind - levels_ - 1)];
  }
  int32_t kind_of(const FredSubnetwork& subnetwork, const FredFaults& inside);
  std::map<int32_t, int32_t> children_of(const FredSubnetwork& subnetwork,
                                         const FredFaults& inside);

  const FredSize& size_;
  const std::span<const PortFlow> flows_;
  const int32_t levels_;
  std::vector<Faulty> faulty_;
  int32_t outermost_ = 0;
};

}  // namespace pleach
