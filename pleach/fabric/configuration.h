// Configurations: the mode of each cell; what they do to payloads; whether they do what flows ask.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

// What a cell does; two sides of what has two, else the first.
//   R, demux  the output of each input; both the same: what enters is added
//   D, mux    the input of each output; both the same: a copy to each
//   RD        the inputs of each output, as bits: 1, 2, 3 (added); 0: none
// −1: the side does nothing.
struct CellMode {
  int32_t first = -1;
  int32_t second = -1;
  bool operator==(const CellMode&) const = default;
};
using Configuration = std::vector<CellMode>;  // of each of FredSwitch::cells()

// The moves of a cell, "0>2 1>0", "0+1>2", "1>0,1": inputs added, outputs copied to; "idle".
std::string mode_text(CellKind kind, const CellMode& mode);

// What goes from an input of a cell to one of its outputs; several inputs are added there.
struct CellMove {
  int32_t input = 0;
  int32_t output = 0;
};
// Of a mode that the cell has, side by side.
std::vector<CellMove> moves_of(CellKind kind, const CellMode& mode);

// The configuration that takes each flow by its choices, as FlowRouting has them; they are of flows
// that route so.
Configuration configure(const FredSwitch& fred, std::span<const PortFlow> flows,
                        std::span<const int32_t> choices);

// Whether the cells, so configured, take the sum of every flow's inputs to each of its outputs, and
// nothing anywhere else. Follows what enters cell by cell; knows of no router.
//   errors  kInvalidArgument naming cell or port: a mode that the cell has not, a dead cell that is
//           to do something, two flows added or one that is lost, an output that gets less, or what
//           is not its own
Status check_configuration(const FredSwitch& fred, std::span<const PortFlow> flows,
                           std::span<const CellMode> modes);

// The cells by which each flow passes, by stages: numbers in FredSwitch::cells().
std::vector<std::vector<int32_t>> ways_of(const FredSwitch& fred, std::span<const PortFlow> flows,
                                          std::span<const CellMode> modes);

// Executes a configuration; nothing passes what is dead.
//   payloads  of each input port, all of one length; none: nothing enters
//   returns   of each output port; none: nothing comes out
using Payload = std::vector<int64_t>;
std::vector<std::optional<Payload>> execute(const FredSwitch& fred, std::span<const CellMode> modes,
                                            std::span<const std::optional<Payload>> payloads);

}  // namespace pleach
