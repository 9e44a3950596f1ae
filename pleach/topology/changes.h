// Changes of topologies: values from values. What a function does not name stays as it was: ids,
// attributes, classes of links, grid, framing, routing, and the name. What a spec's option does to
// a topology these do too: the results have the same fingerprint.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Without some links and nodes, and the links of those nodes. The ids of the rest are compacted,
// and there is no grid any more.
// Errors: kInvalidArgument: unknown id, ranks that cannot reach each other, no rank left.
Result<Topology> without(const Topology& topology, std::span<const NodeId> removed_nodes,
                         std::span<const LinkId> removed_links);

// With another bandwidth of `links`.
// Errors: kInvalidArgument: unknown link, a bandwidth that is not positive.
Result<Topology> with_bandwidth(const Topology& topology, std::span<const LinkId> links,
                                int64_t bandwidth_bytes_per_s);

// With one lane less of a link for each time that it is named, and without that part of its
// bandwidth. What is left are its first lanes.
// Errors: kInvalidArgument: unknown link, one that has no lane left.
Result<Topology> without_lanes(const Topology& topology, std::span<const LinkId> links);

// With other latencies [ps], one for each link.
// Errors: kInvalidArgument: fewer or more latencies than links, one outside 0 to 1000 s.
Result<Topology> with_latencies(const Topology& topology, std::span<const int64_t> latency_ps);

// With other models of switches (Node::switch_model), one for each node.
// Errors: kInvalidArgument: fewer or more models than nodes, one of a node that is no switch.
Result<Topology> with_switch_models(const Topology& topology, std::span<const std::string> models);

// With traffic on other routes.
Topology with_routing(Topology topology, Routing routing);

// Under another name.
Topology renamed(Topology topology, std::string name);

}  // namespace pleach
