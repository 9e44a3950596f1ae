// A second opinion on conflicts: tries every way of every flow, wire by wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "pleach/base/result.h"
#include "pleach/fabric/fred_router.h"

namespace pleach {

// Whether flows route, by giving one after the other every way that there is (but for the names of
// subnetworks nobody has used yet, where all are alike) and seeing that no wire carries two and
// nothing dead is on the way. Knows of no conflict graph and no colouring. Of the levels before
// `levels` alone; none where `most_tries` do not suffice.
//   flows    pass check_flows()
std::optional<bool> route_by_trial(const FredSize& size, std::span<const PortFlow> flows,
                                   int32_t levels, int64_t most_tries);

// Whether `conflict` is one: its flows do not route, they do without any one of them, and the
// levels before conflict.level do not refuse them.
//   errors  kInvalidArgument saying what is not so; kInfeasible: over `most_tries` tries
Status check_conflict(const FredSize& size, std::span<const PortFlow> flows,
                      const FlowConflict& conflict, int64_t most_tries = 50'000'000);

}  // namespace pleach
