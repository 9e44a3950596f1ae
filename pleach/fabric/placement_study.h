// How often the phases of a strategy route, wherever its workers are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/fred_study.h"

namespace pleach {

// A strategy and each of its phases with flows, all of which are asked for: MP, DP, PP forward, PP
// backward. A placement routes if all of them do. Worker w of the order of strategy_flows() is at
// port place[w].
std::vector<std::vector<PortFlow>> placed_phases(const SwitchStrategy& strategy,
                                                 const std::vector<int32_t>& place);

// Every strategy of exactly so many workers.
std::vector<SwitchStrategy> strategies_of(int32_t workers);
// "5,4,1": MP, DP and PP.
//   errors  kInvalidArgument: other text, a number below 1, a product that is no int32_t
Result<SwitchStrategy> parse_switch_strategy(std::string_view text);
std::string to_text(const SwitchStrategy& strategy);  // "MP5-DP4-PP1"

// Placements of the strategies on a switch of `size.ports` ports, of which as many stay idle as
// there are more of them than workers.
//   sets    random ones, of each strategy; 0: all P! of each
//   errors  kInvalidArgument: a strategy of more workers than ports; all placements of more than
//           kMostPlacementPorts ports
constexpr int32_t kMostPlacementPorts = 8;
Result<RouteCount> count_random_placements(const FredSize& size,
                                           const std::vector<SwitchStrategy>& strategies,
                                           int32_t sets, uint64_t seed,
                                           const RouteOptions& options);

// The least m with which all phases of a strategy route.
struct LeastMiddle {
  int32_t in_order = 0;               // worker w at port w; 0: none up to kMostMiddle
  std::map<int32_t, int64_t> random;  // how many random placements have which
};
constexpr int32_t kMostMiddle = 12;
// Errors: kInvalidArgument: a strategy of more workers than ports; an m that must be tried and has
// too many cells.
Result<LeastMiddle> least_middle(int32_t ports, const SwitchStrategy& strategy, int32_t sets,
                                 uint64_t seed, const RouteOptions& options);

// Those of FRED's workloads.   source  FRED, ISCA 2025, table 6, as far as it is known
struct StrategyOfWorkload {
  std::string workload;
  SwitchStrategy strategy;
};
std::vector<StrategyOfWorkload> strategies_of_workloads();

}  // namespace pleach
