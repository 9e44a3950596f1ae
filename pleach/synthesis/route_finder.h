// RouteFinder: the routes of a schedule in the making, each once in its table.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/routes.h"

namespace pleach {

// Most stripes of a transfer: as many as a node has network cards at most.
inline constexpr int32_t kStripeLimit = 8;

// `stripes=auto|K`.
OptionDescriptor stripes_option();

// Where traffic is spread over links, routes between nodes are left open, for fill_routes to choose
// when all transfers are known. Borrows the topology. Every call takes the same table, to which
// nobody else adds.
class RouteFinder {
 public:
  explicit RouteFinder(const Topology& topology);

  // The route from one node to another by the topology's routing; kNoRoute after an error, or if
  // leaves_open(). Of a transfer cut into stripes, the one of 0 ≤ `stripe` < kStripeLimit. Fast
  // when consecutive calls share the source.
  int32_t route(NodeId source, NodeId target, RouteTable& routes, int32_t stripe = 0);
  // Over these links.
  int32_t route(std::span<const LinkId> links, RouteTable& routes);
  bool leaves_open() const { return topology_.routing().kind == RoutingKind::kSpread; }
  // The first error: kInfeasible: no route, or more of them than memory should hold.
  const std::optional<Error>& error() const { return error_; }

 private:
  LinkId direct_link(NodeId source, NodeId target);
  int32_t route(LinkId link, RouteTable& routes);
  int32_t add(std::span<const LinkId> links, RouteTable& routes);
  int32_t find(NodeId source, NodeId target, int32_t stripe, RouteTable& routes);

  const Topology& topology_;
  Router router_;
  std::vector<int32_t> route_of_link_;  // by link; kNoRoute: not in the table yet
  // By stripe and pair: routes of more than one link, or of later stripes.
  std::array<std::unordered_map<int64_t, int32_t>, kStripeLimit> route_of_pair_;
  std::map<std::vector<LinkId>, int32_t> route_of_links_;  // of more than one, that were given
  NodeId direct_source_;                                   // whose links link_to_ holds
  std::vector<LinkId> link_to_;                            // by target node
  std::unordered_set<int32_t> routed_targets_;  // the router keeps a distance field for each
  int64_t link_count_ = 0;                      // of all routes
  std::optional<Error> error_;
};

}  // namespace pleach
