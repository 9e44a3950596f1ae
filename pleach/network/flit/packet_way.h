// PacketWay: the way of a stream's packets, from links to switches to links.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Legs are the links of the stream, each of which carries every packet once. At a junction the
// packets of its inputs become one, and each of its outputs carries that one on: a pass of a
// switch, or a rank that passes traffic through. Junctions form an in-tree, then an out-tree.
struct PacketWay {
  static constexpr int32_t kEnd = -1;  // a leg from a source, or to a target

  struct Leg {
    LinkId link;
    int32_t from = kEnd, to = kEnd;  // junctions
  };
  struct Junction {
    NodeId node;
    std::vector<int32_t> inputs = {}, outputs = {};  // legs
    bool is_gated = false;  // at a switch that does not carry whatever enters
  };
  std::vector<Leg> legs;
  std::vector<Junction> junctions;
  int64_t latency_ps = 0;  // the longest from a source to a target
};

// Of a connection of the schedule, by one of the streams that it carries.
// Precondition: no symmetry; `cores` are those of the topology.
PacketWay packet_way(const Topology& topology, const SwitchCores& cores,
                     const LoweredSchedule& schedule, int32_t stream);

}  // namespace pleach
