#include "pleach/collective/switch_passes.h"

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {
namespace {

void insert(std::vector<LinkId>& links, LinkId link) {
  const auto place = std::ranges::lower_bound(links, link);
  if (place == links.end() || *place != link) {
    links.insert(place, link);
  }
}

// Adds the switches between a route's ends. What has come by a link already is the same stream's,
// on its way to others.
void add_between(const Topology& topology, std::span<const LinkId> route,
                 std::vector<SwitchPass>& passes, std::size_t first) {
  for (std::size_t i = 1; i < route.size(); ++i) {
    const NodeId node = topology.link(route[i]).source;
    if (topology.node(node).kind != NodeKind::kSwitch) {
      continue;
    }
    const auto comes_by = [&](const SwitchPass& pass) { return pass.inputs[0] == route[i - 1]; };
    const auto known =
        std::find_if(passes.begin() + static_cast<std::ptrdiff_t>(first), passes.end(), comes_by);
    if (known == passes.end()) {
      passes.push_back({node, {route[i - 1]}, {route[i]}});
    } else {
      insert(known->outputs, route[i]);
    }
  }
}

}  // namespace

std::vector<SwitchPass> switch_passes(const Topology& topology, std::span<const LinkId> route) {
  std::vector<SwitchPass> passes;
  add_between(topology, route, passes, 0);
  return passes;
}

std::vector<std::vector<SwitchPass>> switch_passes(const Topology& topology,
                                                   const Schedule& schedule,
                                                   const SwitchStreams& streams) {
  std::vector<std::vector<SwitchPass>> passes(at(streams.stream_count()));
  std::vector<std::size_t> place(streams.crossings().size());
  for (std::size_t i = 0; i < place.size(); ++i) {
    const Crossing& crossing = streams.crossings()[i];
    std::vector<SwitchPass>& of_stream = passes[at(crossing.stream)];
    place[i] = of_stream.size();
    of_stream.push_back({NodeId{crossing.node}, {}, {}});
  }
  std::vector<std::size_t> crossings;  // by stream
  for (const std::vector<SwitchPass>& of_stream : passes) {
    crossings.push_back(of_stream.size());
  }
  for (const Hop& hop : streams.hops()) {
    const auto stream = at(streams.stream_of(hop));
    const auto route = schedule.routes[schedule.transfers[at(hop.transfer)].route];
    if (hop.from != kNoCrossing) {
      insert(passes[stream][place[at(hop.from)]].outputs, route.front());
    }
    if (hop.to != kNoCrossing) {
      insert(passes[stream][place[at(hop.to)]].inputs, route.back());
    }
    add_between(topology, route, passes[stream], crossings[stream]);
  }
  return passes;
}

}  // namespace pleach
