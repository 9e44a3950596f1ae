// fill_routes: the topology's shortest routes for transfers that name none.
#include <fmt/format.h>

#include <unordered_map>

#include "pleach/collective/route_index.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/routes.h"

namespace pleach {

Status fill_routes(Schedule& schedule, const Topology& topology) {
  const auto node_count = static_cast<int64_t>(topology.nodes().size());
  Router router(topology);
  RouteIndex routes(schedule.routes);
  std::unordered_map<uint64_t, int32_t> route_of;  // by the pair of nodes
  for (std::size_t i = 0; i < schedule.transfers.size(); ++i) {
    Transfer& transfer = schedule.transfers[i];
    if (transfer.route != kNoRoute) {
      continue;
    }
    for (const NodeId node : {transfer.source, transfer.target}) {
      if (node.value < 0 || node.value >= node_count) {
        return invalid(fmt::format("transfers[{}]: the topology {} has {} nodes, not node {}", i,
                                   topology.name(), node_count, node.value));
      }
    }
    const uint64_t pair = static_cast<uint64_t>(transfer.source.value) << 32 |
                          static_cast<uint64_t>(transfer.target.value);
    auto known = route_of.find(pair);
    if (known == route_of.end()) {
      PLEACH_ASSIGN(links, router.route(transfer.source, transfer.target));
      known = route_of.emplace(pair, routes.find_or_add(links)).first;
    }
    transfer.route = known->second;
  }
  sort_transfers(schedule);
  return ok();
}

}  // namespace pleach
