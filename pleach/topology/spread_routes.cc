#include "pleach/topology/spread_routes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

// Rounds of improvement stop after so many without any, or when so many links were looked at.
constexpr int32_t kPatience = 200;
constexpr int64_t kWorkLimit = int64_t{1} << 22;
constexpr std::size_t kMostAtOnce = 4;
constexpr uint64_t kSeed = 1;  // of the random ties

int64_t common_unit(std::span<const Demand> demands, std::span<const LinkLoad> fixed) {
  int64_t unit = 0;
  for (const Demand& demand : demands) {
    unit = std::gcd(unit, demand.load);
  }
  for (const LinkLoad& carried : fixed) {
    unit = std::gcd(unit, carried.load);
  }
  return std::max<int64_t>(unit, 1);
}

}  // namespace

RouteSpreader::RouteSpreader(const Topology& topology, std::vector<int32_t> group_of_link)
    : topology_(topology),
      router_(topology),
      group_of_link_(std::move(group_of_link)),
      place_of_(topology.nodes().size(), -1) {
  if (group_of_link_.empty()) {
    group_of_link_.resize(topology.links().size());
    std::iota(group_of_link_.begin(), group_of_link_.end(), 0);
  }
  int64_t most = 0;
  for (const Link& link : topology.links()) {
    most = std::max(most, link.bandwidth_bytes_per_s);
  }
  loads_.resize(topology.links().size());
  for (std::size_t link = 0; link < topology.links().size(); ++link) {
    Load& load = loads_[at(group_of_link_[link])];
    load.width = static_cast<double>(topology.links()[link].bandwidth_bytes_per_s) /
                 static_cast<double>(most);
    load.per_width = 1 / load.width;
  }
}

Result<std::vector<std::vector<LinkId>>> RouteSpreader::spread(std::span<const Demand> demands,
                                                               std::span<const LinkLoad> fixed) {
  const auto unit = static_cast<double>(common_unit(demands, fixed));
  for (const LinkId link : touched_) {
    Load& load = loads_[at(group_of_link_[link.index()])];
    load.before += std::exchange(load.now, 0);
    load.forced = 0;
    load.is_touched = false;
  }
  touched_.clear();
  sum_ = 0;
  for (const LinkLoad& carried : fixed) {
    const double load = static_cast<double>(carried.load) / unit;
    add(std::span(&carried.link, 1), load);
    loads_[at(group_of_link_[carried.link.index()])].forced += load;
  }
  work_ = 0;
  std::vector<std::vector<LinkId>> routes(demands.size());
  PLEACH_ASSIGN(has_choice, place_all(demands, unit, routes));
  if (has_choice) {
    PLEACH_TRY(improve(demands, unit, routes));
    PLEACH_TRY(keep_first_if_better(demands, unit, routes));
  }
  return routes;
}

// The largest demands first, those of equal size in the order given.
Result<bool> RouteSpreader::place_all(std::span<const Demand> demands, double unit,
                                      std::vector<std::vector<LinkId>>& routes) {
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t index) { return demands[index].load; });
  bool has_choice = false;
  for (const std::size_t index : order) {
    check_interruption();
    const Demand& demand = demands[index];
    const double load = static_cast<double>(demand.load) / unit;
    PLEACH_TRY(look(demand));
    routes[index] = cheapest(load, static_cast<uint64_t>(demand.target.value));
    add(routes[index], load);
    count_forced(load);
    has_choice = has_choice || found_.arcs.size() > routes[index].size();
  }
  return has_choice;
}

Status RouteSpreader::improve(std::span<const Demand> demands, double unit,
                              std::vector<std::vector<LinkId>>& routes) {
  Rng rng(kSeed);
  std::vector<std::vector<LinkId>> current = routes;
  std::vector<Load> best_loads = loads_;
  double best = sum_;
  std::vector<std::size_t> order(demands.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int32_t idle = 0; idle < kPatience && work_ < kWorkLimit && !is_optimal(); ++idle) {
    for (std::size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[rng.below(left)]);
    }
    const std::size_t block = 1 + at(idle) % kMostAtOnce;
    for (std::size_t first = 0; first < order.size(); first += block) {
      check_interruption();
      const auto some = std::span(order).subspan(first, std::min(block, order.size() - first));
      PLEACH_TRY(place_anew(some, demands, unit, rng, current));
    }
    if (sum_ < best) {
      best = sum_;
      best_loads = loads_;
      routes = current;
      idle = -1;
    }
  }
  loads_ = std::move(best_loads);
  return ok();
}

double RouteSpreader::busiest() const {
  double most = 0;
  for (const LinkId link : touched_) {
    const Load& load = loads_[at(group_of_link_[link.index()])];
    most = std::max(most, load.now * load.per_width);
  }
  return most;
}

Status RouteSpreader::keep_first_if_better(std::span<const Demand> demands, double unit,
                                           std::vector<std::vector<LinkId>>& routes) {
  constexpr double kLess = 1 - 1e-9;
  const double spread = busiest();
  std::vector<std::vector<LinkId>> first;
  first.reserve(demands.size());
  const auto move = [&](const std::vector<std::vector<LinkId>>& from,
                        const std::vector<std::vector<LinkId>>& to) {
    for (std::size_t index = 0; index < demands.size(); ++index) {
      const double load = static_cast<double>(demands[index].load) / unit;
      add(from[index], -load);
      add(to[index], load);
    }
  };
  for (const Demand& demand : demands) {
    PLEACH_ASSIGN(route, router_.route(demand.source, demand.target));
    first.push_back(std::move(route));
  }
  move(routes, first);
  if (busiest() < spread * kLess) {
    routes = std::move(first);
  } else {
    move(first, routes);
  }
  return ok();
}

// Takes some demands away and places them again, one after the other; leaves all as it was if the
// sum would grow.
Status RouteSpreader::place_anew(std::span<const std::size_t> block,
                                 std::span<const Demand> demands, double unit, Rng& rng,
                                 std::vector<std::vector<LinkId>>& routes) {
  const double before = sum_;
  std::vector<std::vector<LinkId>> old;
  for (const std::size_t index : block) {
    add(routes[index], -static_cast<double>(demands[index].load) / unit);
    old.push_back(routes[index]);
  }
  for (const std::size_t index : block) {
    const double load = static_cast<double>(demands[index].load) / unit;
    PLEACH_TRY(look(demands[index]));
    routes[index] = cheapest(load, rng.next());
    add(routes[index], load);
  }
  if (sum_ <= before) {
    return ok();
  }
  for (std::size_t place = 0; place < block.size(); ++place) {
    const double load = static_cast<double>(demands[block[place]].load) / unit;
    add(routes[block[place]], -load);
    routes[block[place]] = std::move(old[place]);
    add(routes[block[place]], load);
  }
  return ok();
}

double RouteSpreader::potential(const Load& load) {
  const double used = load.now * load.per_width;
  return load.width * (used * used) * (used * used);
}

RouteSpreader::Cost RouteSpreader::cost_of(LinkId link, double load) const {
  Load carried = loads_[at(group_of_link_[link.index()])];
  const double without = potential(carried);
  carried.now += load;
  return {potential(carried) - without, carried.before * carried.per_width};
}

void RouteSpreader::add(std::span<const LinkId> route, double load) {
  for (const LinkId link : route) {
    Load& carried = loads_[at(group_of_link_[link.index()])];
    if (!std::exchange(carried.is_touched, true)) {
      touched_.push_back(link);
    }
    sum_ -= potential(carried);
    carried.now += load;
    sum_ += potential(carried);
  }
}

// The links from the source right to the target, if there are any: they need no distance field.
void RouteSpreader::look_at_neighbours(const Demand& demand) {
  Routes& found = found_;
  for (const LinkId link : topology_.links_out(demand.source)) {
    if (topology_.link(link).target == demand.target) {
      found.arcs.push_back({link, 1});
    }
  }
  if (!found.arcs.empty()) {
    found.nodes.push_back(demand.target);
    found.layer = {0, 1};
    found.first_arc = {0, found.arcs.size(), found.arcs.size()};
    work_ += static_cast<int64_t>(found.arcs.size());
  }
}

// Finds the nodes and links on shortest routes of the demand.
Status RouteSpreader::look(const Demand& demand) {
  Routes& found = found_;
  found.nodes.assign(1, demand.source);
  found.layer.assign(1, 0);
  found.first_arc.clear();
  found.arcs.clear();
  look_at_neighbours(demand);
  if (!found.arcs.empty()) {
    return ok();
  }
  const std::vector<int32_t>& distances = router_.distances_to(demand.target);
  if (distances[demand.source.index()] < 0) {
    return no_route(topology_, demand.source, demand.target);
  }
  for (std::size_t place = 0; place < found.nodes.size(); ++place) {
    check_interruption();
    found.first_arc.push_back(found.arcs.size());
    const NodeId node = found.nodes[place];
    if (node == demand.target) {
      continue;
    }
    for_each_nearer(topology_, distances, node, demand.target, [&](LinkId link) {
      const NodeId next = topology_.link(link).target;
      int32_t& next_place = place_of_[next.index()];
      if (next_place < 0) {
        next_place = count_of(found.nodes);
        found.nodes.push_back(next);
        found.layer.push_back(found.layer[place] + 1);
      }
      found.arcs.push_back({link, next_place});
    });
  }
  found.first_arc.push_back(found.arcs.size());
  work_ += static_cast<int64_t>(found.arcs.size());
  for (const NodeId node : found.nodes) {
    place_of_[node.index()] = -1;
  }
  return ok();
}

// Links of the demand last looked at that are alone in their layer are on all of its routes.
void RouteSpreader::count_forced(double load) {
  const Routes& found = found_;
  std::size_t first = 0;  // place where a layer begins
  for (std::size_t place = 1; place <= found.nodes.size(); ++place) {
    if (place < found.nodes.size() && found.layer[place] == found.layer[first]) {
      continue;
    }
    if (found.first_arc[place] - found.first_arc[first] == 1) {
      const LinkId link = found.arcs[found.first_arc[first]].link;
      loads_[at(group_of_link_[link.index()])].forced += load;
    }
    first = place;
  }
}

// Whether the busiest link has nothing that could go elsewhere.
bool RouteSpreader::is_optimal() const {
  double busiest = 0, least = 0;
  for (const LinkId link : touched_) {
    const Load& load = loads_[at(group_of_link_[link.index()])];
    busiest = std::max(busiest, load.now * load.per_width);
    least = std::max(least, load.forced * load.per_width);
  }
  return busiest <= least;
}

// The cheapest route of the demand last looked at; of equally cheap links at a node the one that
// the lowest of the `digits` names, which are used up so.
std::vector<LinkId> RouteSpreader::cheapest(double load, uint64_t digits) {
  Routes& found = found_;
  found.cost.assign(found.nodes.size(), Cost{});
  const auto through = [&](const Arc& arc) {
    const Cost link = cost_of(arc.link, load), rest = found.cost[at(arc.next)];
    return Cost{link.now + rest.now, link.before + rest.before};
  };
  const auto arcs_of = [&](std::size_t place) {
    return std::span(found.arcs)
        .subspan(found.first_arc[place], found.first_arc[place + 1] - found.first_arc[place]);
  };
  for (std::size_t place = found.nodes.size(); place-- > 0;) {
    const std::span<const Arc> arcs = arcs_of(place);
    if (!arcs.empty()) {
      found.cost[place] = through(arcs.front());
      for (const Arc& arc : arcs.subspan(1)) {
        found.cost[place] = std::min(found.cost[place], through(arc));
      }
    }
  }
  std::vector<LinkId> route;
  std::vector<Arc> ties;
  for (std::size_t place = 0; !arcs_of(place).empty(); place = at(ties[0].next)) {
    ties.clear();
    std::ranges::copy_if(arcs_of(place), std::back_inserter(ties),
                         [&](const Arc& arc) { return through(arc) == found.cost[place]; });
    std::swap(ties[0], ties[digits % ties.size()]);
    digits /= ties.size();
    route.push_back(ties[0].link);
  }
  return route;
}

}  // namespace pleach
