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
  std::span<const NodeId> participants;  // rank r is this node; empty: all rank nodes
  Rank root = {0};
  // Largest number of max-flows to run; fewer only make the bound looser, never wrong.
  int32_t max_flow_limit = 512;
};

// The best (smallest) of the node bounds, the cut bounds, and for all_reduce and all_to_all the
// bounds by total capacity. docs/topologies.md derives each.
//   errors  kInvalidArgument: fewer than two participants, an unknown or repeated one, a root that
//           is none; kInfeasible: two participants are not connected
//   cost    uniform grids, cliques and stars O(links); else a few minimum cuts of the whole graph
//           or, where nodes only relay, up to max_flow_limit max-flows
//   source  Edmonds 1973 (broadcast = min cut); Nash-Williams and Tutte 1961 (all_reduce);
//           Ford and Fulkerson 1956 (gather, scatter: one flow to or from the root);
//           Zhao et al., ForestColl, 2024 (all_gather: min over cuts S of capacity(S)/|S|)
Result<Bound> algbw_bound(const Topology& topology, const BoundRequest& request);

// Fills schedule.provenance.certificate: the bound, and from the link loads what the schedule
// itself attains (whole bytes over the busiest link), its alpha and its beta. Payload bytes only:
// packet headers take the same share of both. Leaves one rank without a certificate.
//   schedule  check_form found nothing; missing routes are those that fill_routes gives
//   cost      O(links of all routes)
Status certify(Schedule& schedule, const Topology& topology);

}  // namespace pleach
