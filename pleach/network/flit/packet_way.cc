#include "pleach/network/flit/packet_way.h"

#include <map>
#include <span>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"

namespace pleach {
namespace {

class WayBuilder {
 public:
  WayBuilder(const SwitchCores& cores, const LoweredConnection& connection) : cores_(cores) {
    way_.latency_ps = connection.latency_ps;
    for (const LinkId link : connection.links) {
      leg_of_.emplace(link.value, count_of(way_.legs));
      way_.legs.push_back({link});
    }
  }

  void join(NodeId node, std::span<const LinkId> inputs, std::span<const LinkId> outputs) {
    const int32_t number = count_of(way_.junctions);
    PacketWay::Junction& junction = way_.junctions.emplace_back();
    junction.node = node;
    junction.is_gated = cores_.of(node) != nullptr;
    for (const LinkId link : inputs) {
      junction.inputs.push_back(leg_of_.at(link.value));
      int32_t& to = way_.legs[at(junction.inputs.back())].to;
      PLEACH_CHECK(to == PacketWay::kEnd, "a link of a stream leads to two places");
      to = number;
    }
    for (const LinkId link : outputs) {
      junction.outputs.push_back(leg_of_.at(link.value));
      int32_t& from = way_.legs[at(junction.outputs.back())].from;
      PLEACH_CHECK(from == PacketWay::kEnd, "a link of a stream carries two things");
      from = number;
    }
  }

  PacketWay take() { return std::move(way_); }

 private:
  const SwitchCores& cores_;
  std::map<int32_t, int32_t> leg_of_;  // by link
  PacketWay way_;
};

}  // namespace

PacketWay packet_way(const Topology& topology, const SwitchCores& cores,
                     const LoweredSchedule& schedule, int32_t stream) {
  const LoweredConnection& connection =
      schedule.connections()[at(schedule.connection_class(stream))];
  WayBuilder builder(cores, connection);
  for (const SwitchPass& pass : connection.passes) {
    builder.join(pass.node, pass.inputs, pass.outputs);
  }
  for (const int32_t index : schedule.order().transfers(stream)) {
    const Transfer& transfer = schedule.schedule().transfers[at(index)];
    const std::span<const LinkId> route = schedule.schedule().routes[transfer.route];
    for (std::size_t i = 1; i < route.size(); ++i) {
      const NodeId node = topology.link(route[i]).source;
      // The passes of a tree are there already.
      if (connection.passes.empty() || topology.node(node).kind != NodeKind::kSwitch) {
        builder.join(node, route.subspan(i - 1, 1), route.subspan(i, 1));
      }
    }
  }
  return builder.take();
}

}  // namespace pleach
