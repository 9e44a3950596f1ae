// fill_routes: the topology's routes for transfers that name none.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/route_index.h"
#include "pleach/collective/schedule.h"
#include "pleach/collective/symmetry.h"
#include "pleach/topology/routes.h"
#include "pleach/topology/spread_routes.h"

namespace pleach {
namespace {

constexpr int64_t kRouteLinkLimit = int64_t{1} << 27;

uint64_t pair_of(const Transfer& transfer) {
  return static_cast<uint64_t>(transfer.source.value) << 32 |
         static_cast<uint64_t>(transfer.target.value);
}

Status check_nodes(const Schedule& schedule, const Topology& topology) {
  const auto node_count = static_cast<int64_t>(topology.nodes().size());
  for (std::size_t i = 0; i < schedule.transfers.size(); ++i) {
    check_interruption();
    const Transfer& transfer = schedule.transfers[i];
    for (const NodeId node : {transfer.source, transfer.target}) {
      if (transfer.route == kNoRoute && (node.value < 0 || node.value >= node_count)) {
        return invalid(fmt::format("transfers[{}]: the topology {} has {} nodes, not node {}", i,
                                   topology.name(), node_count, node.value));
      }
    }
  }
  return ok();
}

// One route for every pair of nodes, whatever else is sent.
Status fill_pair_by_pair(Schedule& schedule, const Topology& topology) {
  Router router(topology);
  RouteIndex routes(schedule.routes);
  std::unordered_map<uint64_t, int32_t> route_of;  // by the pair of nodes
  for (Transfer& transfer : schedule.transfers) {
    check_interruption();
    if (transfer.route != kNoRoute) {
      continue;
    }
    const uint64_t pair = pair_of(transfer);
    auto known = route_of.find(pair);
    if (known == route_of.end()) {
      PLEACH_ASSIGN(links, router.route(transfer.source, transfer.target));
      known = route_of.emplace(pair, routes.find_or_add(links)).first;
    }
    transfer.route = known->second;
  }
  return ok();
}

// Ways that what one pair sends in a step is cut into at most.
constexpr std::size_t kMostWays = 8;

// What is sent in one step: the demands of pairs in ascending order, those of a pair by chunks, and
// the loads of links by transfers that have their routes.
struct StepTraffic {
  std::vector<Demand> demands;
  std::vector<std::size_t> demand_of;  // by transfer of the step; of those that have no route
  std::vector<LinkLoad> fixed;
};

// Sorts by link, and makes one of those that are of the same.
void add_up(std::vector<LinkLoad>& all) {
  std::ranges::sort(all, {}, &LinkLoad::link);
  std::size_t kept = 0;
  for (std::size_t index = 1; index < all.size(); ++index) {
    if (all[index].link == all[kept].link) {
      all[kept].load += all[index].load;
    } else {
      all[++kept] = all[index];
    }
  }
  all.resize(std::min(all.size(), kept + 1));
}

// Balances the routes of each step. Steps with the same traffic get the same routes.
class StepSpreader {
 public:
  StepSpreader(Schedule& schedule, const Topology& topology)
      : schedule_(schedule),
        spreader_(topology, groups_of_links(schedule, topology)),
        routes_(schedule.routes) {}

  // Fills in the routes of these transfers, which are all of one step.
  Status fill(std::span<const std::size_t> transfers) {
    const StepTraffic traffic = traffic_of(transfers);
    if (traffic.demands.empty()) {
      return ok();
    }
    const std::vector<int64_t> key = key_of(traffic);
    auto known = routes_of_.find(key);
    if (known == routes_of_.end()) {
      PLEACH_ASSIGN(found, spreader_.spread(traffic.demands, traffic.fixed));
      std::vector<int32_t> numbers;
      for (const std::vector<LinkId>& links : found) {
        link_count_ += static_cast<int64_t>(links.size());
        numbers.push_back(routes_.find_or_add(links));
      }
      if (link_count_ > kRouteLinkLimit) {
        return Error{ErrorCode::kInfeasible,
                     fmt::format("the routes would have more than {} links", kRouteLinkLimit)};
      }
      known = routes_of_.emplace(key, std::move(numbers)).first;
    }
    for (std::size_t place = 0; place < transfers.size(); ++place) {
      Transfer& transfer = schedule_.transfers[transfers[place]];
      if (transfer.route == kNoRoute) {
        transfer.route = known->second[traffic.demand_of[place]];
      }
    }
    return ok();
  }

 private:
  // Links that translation makes alike carry the same.
  static std::vector<int32_t> groups_of_links(const Schedule& schedule, const Topology& topology) {
    std::vector<int32_t> groups;
    if (!schedule.symmetry) {
      return groups;
    }
    if (const auto links = LinkTranslation::create(schedule, topology, false)) {
      for (int32_t link = 0; link < count_of(topology.links()); ++link) {
        groups.push_back(links->class_of(LinkId{link}));
      }
    }
    return groups;
  }

  int64_t weight_of(const Transfer& transfer) const {
    return schedule_.chunks.cumulative(transfer.first_chunk + transfer.chunk_count) -
           schedule_.chunks.cumulative(transfer.first_chunk);
  }

  StepTraffic traffic_of(std::span<const std::size_t> transfers) const {
    StepTraffic traffic;
    traffic.demand_of.resize(transfers.size());
    std::vector<std::size_t> open;  // places of those without a route
    for (std::size_t place = 0; place < transfers.size(); ++place) {
      const Transfer& transfer = schedule_.transfers[transfers[place]];
      if (transfer.route == kNoRoute) {
        open.push_back(place);
        continue;
      }
      for (const LinkId link : schedule_.routes[transfer.route]) {
        traffic.fixed.push_back({link, weight_of(transfer)});
      }
    }
    add_up(traffic.fixed);
    const auto transfer_at = [&](std::size_t place) -> const Transfer& {
      return schedule_.transfers[transfers[place]];
    };
    std::ranges::stable_sort(open, {}, [&](std::size_t place) {
      const Transfer& transfer = transfer_at(place);
      return std::tuple(transfer.source, transfer.target, transfer.first_chunk);
    });
    for (auto first = open.begin(); first != open.end();) {
      const uint64_t pair = pair_of(transfer_at(*first));
      const auto last = std::find_if(first, open.end(), [&](std::size_t place) {
        return pair_of(transfer_at(place)) != pair;
      });
      add_demands(std::span(first, last), transfers, traffic);
      first = last;
    }
    return traffic;
  }

  // Cuts what a pair sends into ways of about the same load; every transfer goes one way.
  void add_demands(std::span<const std::size_t> places, std::span<const std::size_t> transfers,
                   StepTraffic& traffic) const {
    const auto ways = static_cast<int64_t>(std::min(places.size(), kMostWays));
    int64_t all = 0, before = 0, way = -1;
    for (const std::size_t place : places) {
      all += weight_of(schedule_.transfers[transfers[place]]);
    }
    for (const std::size_t place : places) {
      const Transfer& transfer = schedule_.transfers[transfers[place]];
      const auto wanted = static_cast<int64_t>(static_cast<__int128>(before) * ways / all);
      if (wanted != way) {
        traffic.demands.push_back({transfer.source, transfer.target, 0});
        way = wanted;
      }
      before += weight_of(transfer);
      traffic.demands.back().load += weight_of(transfer);
      traffic.demand_of[place] = traffic.demands.size() - 1;
    }
  }

  static std::vector<int64_t> key_of(const StepTraffic& traffic) {
    std::vector<int64_t> key;
    for (const Demand& demand : traffic.demands) {
      key.insert(key.end(), {demand.source.value, demand.target.value, demand.load});
    }
    key.push_back(-1);
    for (const LinkLoad& carried : traffic.fixed) {
      key.insert(key.end(), {carried.link.value, carried.load});
    }
    return key;
  }

  Schedule& schedule_;
  RouteSpreader spreader_;
  RouteIndex routes_;
  std::map<std::vector<int64_t>, std::vector<int32_t>> routes_of_;  // by traffic
  int64_t link_count_ = 0;                                          // of all routes
};

Status fill_step_by_step(Schedule& schedule, const Topology& topology) {
  std::vector<std::size_t> order(schedule.transfers.size());
  for (std::size_t index = 0; index < order.size(); ++index) {
    order[index] = index;
  }
  const auto step_of = [&](std::size_t index) { return schedule.transfers[index].step; };
  std::ranges::stable_sort(order, {}, step_of);
  StepSpreader spreader(schedule, topology);
  for (auto first = order.begin(); first != order.end();) {
    const auto last = std::ranges::upper_bound(first, order.end(), step_of(*first), {}, step_of);
    PLEACH_TRY(spreader.fill(std::span(first, last)));
    first = last;
  }
  return ok();
}

}  // namespace

Status fill_routes(Schedule& schedule, const Topology& topology) {
  PLEACH_TRY(check_nodes(schedule, topology));
  const bool is_spread = topology.routing().kind == RoutingKind::kSpread;
  PLEACH_TRY(is_spread ? fill_step_by_step(schedule, topology)
                       : fill_pair_by_pair(schedule, topology));
  sort_transfers(schedule);
  return ok();
}

}  // namespace pleach
