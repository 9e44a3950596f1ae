#include "pleach/network/flit/traffic_routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/network/flit/vc_classes.h"
#include "pleach/network/flit/vc_layers.h"
#include "pleach/topology/routes.h"

namespace pleach {
namespace {

constexpr int32_t kMostTableRanks = 2048;
constexpr uint16_t kNoPort = UINT16_MAX;
// So many hops are copied at once; where that is too many, the rest is not looked at.
constexpr std::size_t kAtOnce = 8;

uint16_t port_to(const Topology& topology, const TopologyFabric& fabric, int32_t from, int32_t to) {
  for (const LinkId link : topology.links_out(NodeId{from})) {
    if (topology.link(link).target.value == to) {
      return static_cast<uint16_t>(fabric.fabric.channels[link.index()].source.port);
    }
  }
  return kNoPort;
}

}  // namespace

Result<TrafficRoutes> TrafficRoutes::create(const Topology& topology, const TopologyFabric& fabric,
                                            const TrafficRouteOptions& options) {
  TrafficRoutes routes;
  routes.ranks_ = count_of(topology.rank_nodes());
  routes.draw_ties_ = options.draw_ties;
  std::vector<uint16_t> ports;  // by rank, dimension and direction (minus, plus)
  if (!routes.set_grid(topology, fabric, ports)) {
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
  routes.set_runs(ports);
  return routes;
}

bool TrafficRoutes::set_grid(const Topology& topology, const TopologyFabric& fabric,
                             std::vector<uint16_t>& ports) {
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
        ports.push_back(port);
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
    return too_few_vcs(topology, options.vcs, layers.cycle);
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

void TrafficRoutes::set_runs(const std::vector<uint16_t>& ports) {
  const std::size_t dimensions = grid_.size();
  runs_.first.resize(ports.size());
  std::size_t longest = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    longest += at(grid_[i].size);
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      runs_.places.resize(at(ranks_) * dimensions);
      runs_.places[at(rank) * dimensions + i] = rank / grid_[i].stride % grid_[i].size;
    }
  }
  hops_.resize(longest + kAtOnce);
  for (int32_t vc_class = 0; vc_class < classes_; ++vc_class) {
    for (std::size_t i = 0; i < dimensions; ++i) {
      for (int32_t rank = 0; rank < ranks_; ++rank) {
        if (runs_.places[at(rank) * dimensions + i] == 0) {
          add_runs(ports, rank, i, vc_class);
        }
      }
    }
    runs_.of_class = vc_class == 0 ? runs_.hops.size() : runs_.of_class;
  }
}

// Both ways along the line through `rank`, which is at its beginning.
void TrafficRoutes::add_runs(const std::vector<uint16_t>& ports, int32_t rank, std::size_t i,
                             int32_t vc_class) {
  const auto [size, stride, is_ring] = grid_[i];
  for (const std::size_t direction : {0, 1}) {
    for (int32_t step = 0; step < 2 * size; ++step) {
      const int32_t place = direction == 1 ? step % size : size - 1 - step % size;
      const std::size_t here = (at(rank + place * stride) * grid_.size() + i) * 2 + direction;
      if (step < size && vc_class == 0) {
        runs_.first[here] = static_cast<uint32_t>(runs_.hops.size());
      }
      runs_.hops.push_back(static_cast<uint16_t>(ports[here] * classes_ + vc_class));
    }
    runs_.hops.resize(runs_.hops.size() + kAtOnce);
  }
}

std::span<const uint16_t> TrafficRoutes::along_grid(int32_t source, int32_t target, Rng& rng) {
  const std::size_t dimensions = grid_.size();
  const int32_t* goals = &runs_.places[at(target) * dimensions];
  uint16_t* end = hops_.data();
  int32_t here = source;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto [size, stride, is_ring] = grid_[i];
    const std::size_t run = at(here) * dimensions + i;
    const int32_t way = goals[i] - runs_.places[run];
    int32_t left = std::abs(way);
    bool goes_round = false;
    if (is_ring) {
      goes_round = 2 * left > size;
      if (2 * left == size) {
        goes_round = draw_ties_ ? (rng.next() & 1U) != 0 : way > 0;
      }
      left = goes_round ? size - left : left;
    }
    const bool is_plus = (way > 0) != goes_round;
    const bool passes_dateline = classes_ > 1 && goes_round;
    const uint16_t* hops = &runs_.hops[runs_.first[run * 2 + (is_plus ? 1 : 0)] +
                                       (passes_dateline ? runs_.of_class : 0)];
    for (std::size_t done = 0; done < at(left); done += kAtOnce) {
      std::copy_n(hops + done, kAtOnce, end + done);
    }
    end += left;
    here += way * stride;
  }
  *end++ = static_cast<uint16_t>(ejection_[at(target)] * classes_);
  return {hops_.data(), end};
}

}  // namespace pleach
