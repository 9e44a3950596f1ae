// What a topology's switches are built of, and what that takes: chiplets, cells, area, energy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// How switches are built on a wafer. Every switch is split into equal planes, so many that the
// fastest of all lanes is no faster in a plane than a chiplet's port, and in a plane into as few
// chiplets as their ports allow, each a switch by itself with its part of the ports.
//   source  FRED, ISCA 2025, sec. 6 and tables 3 and 4; how chiplets are cut: docs/fred.md
struct PartsModel {
  int64_t port_bytes_per_s = 600'000'000'000;  // of a chiplet, one way
  int32_t chiplet_ports = 12;                  // at most, in and out
  // Through a millimetre of a chiplet's edge, both ways together.
  int64_t io_bytes_per_s_per_mm = 107'400'000'000;
  int64_t memory_bytes = 1536;  // of configurations, in a chiplet
};
inline constexpr double kWirePicojoulesPerBit = 0.063;
inline constexpr double kRankMm2 = 1314;  // of an NPU with its memory
inline constexpr double kIoMm2 = 20;
inline constexpr double kWaferMm2 = 70'000;

// The published wafer, the switches of fred:C and fred:D. How its power is shared is not known.
inline constexpr int32_t kPublishedChiplets = 35;
inline constexpr double kPublishedMm2 = 25'195;
inline constexpr double kPublishedWatts = 179.35;

// Chiplets that are alike. Figures are those of one.
struct ChipletKind {
  std::string model;  // NAME[,key=value...]
  int32_t ports = 0;
  int64_t count = 0;
  int64_t bytes_per_s = 0;         // through its edge, both ways together
  double area_mm2 = 0;             // a square whose edge carries that
  int64_t cells = 0;               // of FRED's; of other models they are not known: 0
  int64_t configuration_bits = 0;  // three of each cell
  int64_t phases() const {
    return configuration_bits > 0 ? memory_bytes * 8 / configuration_bits : 0;
  }
  int64_t memory_bytes = 0;
};

struct SwitchParts {
  int64_t planes = 0;
  std::vector<ChipletKind> chiplets;  // in the order of the first of each
  double wire_w = 0;                  // of all links of the topology, at full rate
  double ranks_and_io_mm2 = 0;
  double density_share = 1;  // of the area at the published density, what is left

  int64_t chiplet_count() const;
  int64_t cell_count() const;
  double area_mm2() const;
  int64_t memory_bytes() const;
};

// None: no switch names a model, so nothing is known of how it is built.
//   errors  kInvalidArgument: more chiplets, cells or bytes of configurations than can be counted
// Precondition: check_switches(topology).
Result<std::optional<SwitchParts>> parts_of(const Topology& topology, const PartsModel& model);

}  // namespace pleach
