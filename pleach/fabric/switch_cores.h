// SwitchCores: the switches of a topology that do not carry whatever enters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/topology/switch_pass.h"
#include "pleach/topology/switch_ports.h"
#include "pleach/topology/topology.h"

namespace pleach {

class SwitchCores {
 public:
  using MakeSwitch = std::unique_ptr<SwitchCore> (*)(const Topology& topology, NodeId node);

  // Precondition: check_switches(topology). Borrows it.
  explicit SwitchCores(const Topology& topology, MakeSwitch make = make_switch);

  bool empty() const { return nodes_.empty(); }
  // Their nodes, ascending.
  std::span<const NodeId> nodes() const { return nodes_; }
  // Null: it carries whatever enters, or is no switch.
  const SwitchCore* of(NodeId node) const { return cores_[node.index()].get(); }
  // A pass of one of them, by its ports (topology/switch_ports.h), on these lanes of its links.
  using LaneOf = std::function<int32_t(LinkId link)>;
  PortFlow flow_of(const SwitchPass& pass, const LaneOf& lane_of) const;
  // The first lane of a link that is as good as this one at both of its ends
  // (SwitchCore::port_group).
  int32_t lane_group(LinkLane lane) const;
  // The lanes of a link into a node or out of it by which something passes the node, ascending: all
  // where it is none of these.
  std::vector<int32_t> live_lanes(NodeId node, LinkId link) const;

 private:
  const SwitchPorts& ports_of(NodeId node) const;
  std::pair<int32_t, int32_t> port_groups(LinkLane lane) const;

  const Topology& topology_;
  std::vector<NodeId> nodes_;
  std::vector<SwitchPorts> ports_;                  // of those
  std::vector<std::unique_ptr<SwitchCore>> cores_;  // by node
};

// By the models that the topology names. Passes that share a link are on its lanes one after the
// other, but for dead ones; from whichever lane on, where cells or subnetworks of the switch are
// dead. Empty where all its switches carry whatever enters. Precondition: check_switches(topology).
// Borrows it.
SwitchJudge switch_judge(const Topology& topology);

}  // namespace pleach
