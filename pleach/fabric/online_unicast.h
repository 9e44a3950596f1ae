// OnlineUnicast: calls from one port to another that come and go, each routed when it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/fabric/fred_switch.h"

namespace pleach {

// First fit takes the first way that is free, outermost level and lowest subnetwork first; it moves
// nothing, and with m >= 3 there always is one (strict-sense nonblocking). Rearranging routes all
// calls anew where none is free, and so always succeeds, with m = 2 too, but may move what runs.
// Both keep away from what is dead, and so may block.
//   source  Clos 1953 (m >= 2n − 1, n = 2); FRED, sec. 5.2
class OnlineUnicast {
 public:
  enum class Policy : uint8_t { kFirstFit, kRearrange };
  // `size` passes count_cells() and check_faults().
  OnlineUnicast(const FredSize& size, Policy policy);

  bool is_idle(int32_t input, int32_t output) const;
  // Routes a call between idle ports; how many others it moved, none where it is blocked.
  std::optional<int32_t> connect(int32_t input, int32_t output);
  // Ends the call from `input`, if there is one.
  void disconnect(int32_t input);
  // The call's subnetwork at each level; it runs.
  std::span<const int32_t> choices(int32_t input) const;
  int32_t output_of(int32_t input) const;  // −1: none

 private:
  // A wire out of an input's cell, or into an output's, towards a subnetwork.
  std::size_t wire(bool is_output, int32_t level, int32_t subnetwork, int32_t port) const;
  void mark(int32_t input, bool is_busy);
  bool has_dead_cell(int32_t input, int32_t output) const;
  void mark_dead();
  bool find_way(int32_t input, int32_t output, int32_t level, int32_t subnetwork);
  std::optional<int32_t> rearrange(int32_t input, int32_t output);

  FredSize size_;
  Policy policy_;
  std::vector<int32_t> output_of_;  // each input
  std::vector<bool> output_busy_;
  std::vector<int32_t> choices_;     // levels() of each input
  std::vector<std::size_t> begins_;  // of each level's wires
  std::vector<bool> is_busy_;        // wires of inputs, then of outputs
};

}  // namespace pleach
