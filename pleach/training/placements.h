// Placements: which rank has which place of a strategy, where the network decides.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"
#include "pleach/training/phase_streams.h"
#include "pleach/training/switch_turn.h"
#include "pleach/workload/strategy.h"

namespace pleach {

// How well ranks are placed, in all phases but the streams of I/O nodes.
struct PlacementCost {
  int32_t conflicts = 0;         // steps whose streams do not all flow at once
  std::vector<double> slowness;  // by phase: the fastest link's bandwidth over what a stream has of
                                 // its most loaded link
  int64_t links = 0;             // that streams take, added up
};

// Not thread safe.
class PlacementJudge {
 public:
  // Borrows the topology. Groups by the first of in_switch, ring and direct that does them.
  static Result<PlacementJudge> create(const Topology& topology);
  // Errors: those of training_phases() and PhasePlanner.
  Result<PlacementCost> cost(const Strategy& strategy);

 private:
  PlacementJudge(const Topology& topology, std::unique_ptr<Planner> planner);

  const Topology* topology_;
  std::unique_ptr<Planner> planner_;
  std::unique_ptr<PhasePlanner> phases_;
  std::unique_ptr<CellSwitches> switches_;
};

// The strategy with the rank of each place, where its placement is a rule; else as it is.
//   mesh    on a grid of at most kMostMeshRanks. Each dimension of the strategy is cut over the
//           axes; what is on an axis is counted along it, in some order. Of all such ways, and of
//           those along the ranks as they are numbered and along the grid's snake, the one of the
//           least slowness in the first phase, of equals in the second, and so on; of equals the
//           one with the fewest links, then the first
//   search  from the order of ranks on, or `mesh` where that is possible, ranks change places,
//           kSearchSteps times: fewer conflicts first, then less slowness, added up, then fewer
//           links. In the beginning what is a little worse is taken too
//   errors  kInvalidArgument: `mesh` on what is no grid, or too large; those of PlacementJudge
//   source  FRED, ISCA 2025, sec. 8 (a mesh favours the tensor groups); threshold accepting: Dueck
//           and Scheuer, J. Comput. Phys. 90, 1990
inline constexpr int32_t kMostMeshRanks = 1024;
inline constexpr int32_t kSearchSteps = 2000;
Result<Strategy> placed(const Topology& topology, Strategy strategy);

}  // namespace pleach
