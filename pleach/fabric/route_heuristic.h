// A search for a routing that proves nothing: local search with a tabu list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/level_colouring.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

// Looks for choices (see FlowRouting) by moving one flow at a time to where it meets fewer others;
// none where the budget is used up, or there are over a few thousand flows.
//   source  Hertz & de Werra 1987 (tabu search for colouring), over all levels at once
std::optional<std::vector<int32_t>> look_for_choices(const FredSize& size,
                                                     std::span<const PortFlow> flows,
                                                     SearchBudget& budget);

}  // namespace pleach
