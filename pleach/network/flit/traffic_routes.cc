#include "pleach/network/flit/traffic_routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/network/flit/vc_layers.h"
#include "pleach/topology/link_name.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

constexpr int32_t kMostTableRanks = 2048;
constexpr uint16_t kNoPort = UINT16_MAX;

uint16_t port_to(const Topology& topology, const TopologyFabric& fabric, int32_t from, int32_t to) {
  for (const LinkId link : topology.links_out(NodeId{from})) {
    if (topology.link(link).target.value == to) {
      return static_cast<uint16_t>(fabric.fabric.channels[link.index()].source.port);
    }
  }
  return kNoPort;
}

std::string cycle_text(const Topology& topology, const std::vector<LinkId>& cycle) {
  std::vector<std::string> links;
  links.reserve(cycle.size());
  for (const LinkId link : cycle) {
    links.push_back(link_name(topology, link));
  }
  constexpr std::size_t kMost = 16;
  if (links.size() > kMost) {
    links.resize(kMost);
    links.emplace_back("...");
  }
  return join(links, ", ");
}

}  // namespace

Result<TrafficRoutes> TrafficRoutes::create(const Topology& topology, const TopologyFabric& fabric,
                                            const TrafficRouteOptions& options) {
  TrafficRoutes routes;
  routes.ranks_ = count_of(topology.rank_nodes());
  routes.draw_ties_ = options.draw_ties;
  if (!routes.set_grid(topology, fabric)) {
    PLEACH_TRY(routes.set_table(topology, fabric, options));
    return routes;
  }
  const bool has_ring = std::ranges::any_of(routes.grid_, &Dimension::is_ring);
  if (has_ring && options.datelines) {
    if (options.vcs < 2) {
      return invalid(fmt::format("vcs '{}': {} has rings, whose datelines need two VCs",
                                 options.vcs, topology.name()));
    }
    routes.classes_ = 2;
  }
  return routes;
}

bool TrafficRoutes::set_grid(const Topology& topology, const TopologyFabric& fabric) {
  int32_t stride = ranks_;
  for (const GridDimension& dimension : topology.grid()) {
    stride /= dimension.size;
    // Of a ring of two the way round is a link that there is already.
    grid_.push_back({dimension.size, stride, dimension.wraps && dimension.size > 2});
  }
  for (int32_t rank = 0; rank < ranks_ && !grid_.empty(); ++rank) {
    ejection_.push_back(static_cast<uint16_t>(
        fabric.ejection_port[at(fabric.first_interface[topology.rank_nodes()[at(rank)].index()])]));
    for (const Dimension& dimension : grid_) {
      const int32_t place = rank / dimension.stride % dimension.size;
      for (const int32_t step : {-1, 1}) {
        const int32_t next = (place + step + dimension.size) % dimension.size;
        const bool exists = dimension.is_ring || next - place == step;
        const uint16_t port =
            exists ? port_to(topology, fabric, rank, rank + (next - place) * dimension.stride) : 0;
        if (port == kNoPort) {
          grid_.clear();  // links go one way only
          return false;
        }
        ports_.push_back(port);
      }
    }
  }
  return !grid_.empty();
}

Status TrafficRoutes::set_table(const Topology& topology, const TopologyFabric& fabric,
                                const TrafficRouteOptions& options) {
  if (ranks_ > kMostTableRanks) {
    return invalid(fmt::format("{} has {} ranks; off grids traffic runs on at most {}",
                               topology.name(), ranks_, kMostTableRanks));
  }
  Router router(topology);
  std::vector<std::vector<LinkId>> routes;
  for (const NodeId source : topology.rank_nodes()) {
    for (const NodeId target : topology.rank_nodes()) {
      PLEACH_ASSIGN(route, router.route(source, target));
      if (source == target && fabric.router_of[source.index()] < 0) {
        route = {topology.links_out(source).front()};  // round by its switch
      }
      routes.push_back(std::move(route));
    }
  }
  const VcLayers layers = assign_vc_layers(count_of(topology.links()), routes, options.vcs);
  if (!layers.cycle.empty() && !options.allow_deadlock) {
    return invalid(
        fmt::format("vcs '{}' are too few for the routes of {}: packets could wait in "
                    "the circle of links {} (deadlock=allow runs them)",
                    options.vcs, topology.name(), cycle_text(topology, layers.cycle)));
  }
  classes_ = layers.count;
  std::vector<int32_t> class_of;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const NodeId target = topology.rank_nodes()[i % at(ranks_)];
    class_of.assign(routes[i].size(), layers.layer_of[i]);
    const auto hops =
        hops_of(fabric, routes[i], fabric.first_interface[target.index()], classes_, class_of);
    table_.first.push_back(static_cast<uint32_t>(table_.hops.size()));
    table_.hops.insert(table_.hops.end(), hops.begin(), hops.end());
  }
  table_.first.push_back(static_cast<uint32_t>(table_.hops.size()));
  return ok();
}

std::span<const uint16_t> TrafficRoutes::from_table(int32_t source, int32_t target) const {
  const std::size_t pair = at(source) * at(ranks_) + at(target);
  return std::span(table_.hops)
      .subspan(table_.first[pair], table_.first[pair + 1] - table_.first[pair]);
}

std::span<const uint16_t> TrafficRoutes::along_grid(int32_t source, int32_t target, Rng& rng) {
  hops_.clear();
  int32_t here = source;
  for (std::size_t i = 0; i < grid_.size(); ++i) {
    const auto [size, stride, is_ring] = grid_[i];
    int32_t place = here / stride % size;
    const int32_t goal = target / stride % size;
    if (place == goal) {
      continue;
    }
    bool is_plus = goal > place;
    int32_t left = std::abs(goal - place);
    bool passes_dateline = false;
    if (is_ring) {
      const bool is_tie = 2 * left == size;
      const bool goes_round =
          is_tie ? (draw_ties_ ? (rng.next() & 1U) != 0 : is_plus) : 2 * left > size;
      passes_dateline = goes_round;
      is_plus = is_plus != goes_round;
      left = goes_round ? size - left : left;
    }
    const int32_t vc_class = classes_ > 1 && passes_dateline ? 1 : 0;
    const int32_t direction = is_plus ? 1 : 0;
    for (; left > 0; --left) {
      const uint16_t port = ports_[(at(here) * grid_.size() + i) * 2 + at(direction)];
      hops_.push_back(static_cast<uint16_t>(port * classes_ + vc_class));
      const int32_t next =
          is_plus ? (place + 1 == size ? 0 : place + 1) : (place == 0 ? size - 1 : place - 1);
      here += (next - place) * stride;
      place = next;
    }
  }
  hops_.push_back(static_cast<uint16_t>(ejection_[at(target)] * classes_));
  return hops_;
}

}  // namespace pleach
