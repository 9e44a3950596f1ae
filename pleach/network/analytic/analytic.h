// analytic: alpha-beta per step, all ranks in lockstep.
#pragma once

#include "pleach/network/model.h"

namespace pleach {

// Slot k holds the transfers of segment s and step t with s · period + t = k. It takes as long as
// its slowest stream: overhead + latency + the time the busiest of its links needs for all bytes of
// the slot (+ the reduction, where that has a bandwidth). Slots follow one another; jobs do not see
// each other. Cost: O(transfers × segments).
//   errors  kUnsupported: landing places, records
//   source  Hockney's alpha-beta model; Thakur et al., IJHPCA 2005, per step
extern const NetworkModel kAnalyticModel;

}  // namespace pleach
