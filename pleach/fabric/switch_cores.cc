#include "pleach/fabric/switch_cores.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/fabric/fred_faults.h"
#include "pleach/topology/nodes_of_kind.h"
#include "pleach/topology/switch_ports.h"

namespace pleach {

SwitchCores::SwitchCores(const Topology& topology, MakeSwitch make)
    : topology_(topology), cores_(topology.nodes().size()) {
  for (const NodeId node : nodes_of_kind(topology, NodeKind::kSwitch)) {
    cores_[node.index()] = make(topology, node);
    if (cores_[node.index()] != nullptr) {
      nodes_.push_back(node);
      ports_.emplace_back(topology, node);
    }
  }
}

const SwitchPorts& SwitchCores::ports_of(NodeId node) const {
  return ports_[at(std::ranges::lower_bound(nodes_, node) - nodes_.begin())];
}

std::pair<int32_t, int32_t> SwitchCores::port_groups(LinkLane lane) const {
  const Link& link = topology_.link(lane.link);
  const SwitchCore* source = of(link.source);
  const SwitchCore* target = of(link.target);
  return {source == nullptr ? 0 : source->port_group(ports_of(link.source).output(lane)),
          target == nullptr ? 0 : target->port_group(ports_of(link.target).input(lane))};
}

int32_t SwitchCores::lane_group(LinkLane lane) const {
  LinkLane first{lane.link, 0};
  while (port_groups(first) != port_groups(lane)) {
    ++first.lane;
  }
  return first.lane;
}

PortFlow SwitchCores::flow_of(const SwitchPass& pass, const LaneOf& lane_of) const {
  const SwitchPorts& ports = ports_of(pass.node);
  PortFlow flow;
  for (const LinkId link : pass.inputs) {
    flow.inputs.push_back(ports.input({link, lane_of(link)}));
  }
  for (const LinkId link : pass.outputs) {
    flow.outputs.push_back(ports.output({link, lane_of(link)}));
  }
  std::ranges::sort(flow.inputs);
  std::ranges::sort(flow.outputs);
  return flow;
}

std::vector<int32_t> SwitchCores::live_lanes(NodeId node, LinkId link) const {
  const Link& of = topology_.link(link);
  const FredSize* cells = cores_[node.index()] == nullptr ? nullptr : cores_[node.index()]->cells();
  std::vector<int32_t> dead;
  if (cells != nullptr) {
    dead = of.target == node ? dead_inputs(*cells) : dead_outputs(*cells);
  }
  std::vector<int32_t> live;
  for (int32_t lane = 0; lane < of.lanes; ++lane) {
    const auto port = [&] {
      const SwitchPorts& ports = ports_of(node);
      return of.target == node ? ports.input({link, lane}) : ports.output({link, lane});
    };
    if (dead.empty() || !std::ranges::binary_search(dead, port())) {
      live.push_back(lane);
    }
  }
  return live;
}

namespace {

std::vector<int32_t> conflict_from(const SwitchCores& cores, NodeId node,
                                   std::span<const SwitchPass* const> passes, int32_t first) {
  std::vector<PortFlow> flows;
  std::map<LinkId, std::pair<int32_t, std::vector<int32_t>>> uses;
  for (const SwitchPass* pass : passes) {
    flows.push_back(cores.flow_of(*pass, [&](LinkId link) {
      const auto [use, fresh] = uses.try_emplace(link, first, std::vector<int32_t>());
      auto& [next, lanes] = use->second;
      if (fresh) {
        lanes = cores.live_lanes(node, link);
        lanes.resize(std::max<std::size_t>(lanes.size(), 1));  // none lives: a dead one, then
      }
      return lanes[at(next++) % lanes.size()];
    }));
  }
  return cores.of(node)->conflict(flows);
}

}  // namespace

SwitchJudge switch_judge(const Topology& topology) {
  const auto cores = std::make_shared<const SwitchCores>(topology);
  if (cores->empty()) {
    return {};
  }
  return [cores, &topology](NodeId node, std::span<const SwitchPass* const> passes) {
    const SwitchCore* core = cores->of(node);
    if (core == nullptr) {
      return std::vector<int32_t>();
    }
    std::vector<int32_t> conflict = conflict_from(*cores, node, passes, 0);
    int32_t most_lanes = 1;
    for (const auto& links : {topology.links_in(node), topology.links_out(node)}) {
      for (const LinkId link : links) {
        most_lanes = std::max(most_lanes, topology.link(link).lanes);
      }
    }
    const bool has_dead = core->cells() != nullptr && !core->cells()->dead.empty();
    for (int32_t first = 1; has_dead && !conflict.empty() && first < most_lanes; ++first) {
      if (conflict_from(*cores, node, passes, first).empty()) {
        conflict.clear();
      }
    }
    return conflict;
  };
}

}  // namespace pleach
