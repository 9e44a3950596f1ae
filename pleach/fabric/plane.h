// One plane of FRED's wafer as built: leaf switches of four NPUs, and two halves above them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

// NPU n is at port n mod 4 of leaf n / 4. A leaf is FRED_m(12): four NPUs, four I/O, and four ports
// up, of which two lead to each half; a half is FRED_m(2 · leaves), with two ports of each leaf. A
// flow over several leaves takes one port up from each leaf that it has inputs at, and one down to
// each that it has outputs at, all of one half.
//   source  reconstructed from the published number and area of chiplets: docs/fred.md
constexpr int32_t kLeafNpus = 4;

struct PlaneRouting {
  bool routed = false;
  bool proved = false;  // certain; false: a search gave up, or there are too many splits
};
// Tries every split of the flows over the halves; `flows` pass check_flows() of the NPUs.
PlaneRouting route_plane(int32_t npus, int32_t middle, std::span<const PortFlow> flows,
                         const RouteOptions& options);

}  // namespace pleach
