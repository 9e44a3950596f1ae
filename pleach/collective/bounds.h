// Lower bounds on the time of a collective, as upper bounds on its algbw.
#pragma once

#include <span>
#include <string>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct Bound {
  double algbw_bytes_per_s = 0;
  bool exact = false;   // some schedule attains it for large sizes
  std::string witness;  // "node 3 receives over 2 links (32 GB/s)", "cut {0, 1, 4, 5}: 64 GB/s out"
};

struct BoundRequest {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  std::span<const NodeId> participants;
  Rank root = {0};
  // Largest number of max-flows to run; fewer only make the bound looser, never wrong.
  int32_t max_flow_limit = 512;
};

// The best (smallest) of the node bounds and the cut bounds. docs/algorithms.md derives each.
//   errors  kInfeasible: two participants are not connected
//   source  Edmonds 1973 (broadcast = min cut); Nash-Williams and Tutte 1961 (all_reduce);
//           ForestColl (all_gather: min over cuts S of capacity(S)/|S|)
Result<Bound> algbw_bound(const Topology& topology, const BoundRequest& request);

// Fills schedule.provenance.certificate: the bound, and from the link loads what the schedule
// itself attains (whole bytes over the busiest link), its alpha and its beta.
Status certify(Schedule& schedule, const Topology& topology);

}  // namespace pleach
