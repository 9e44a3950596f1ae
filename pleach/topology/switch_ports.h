// SwitchPorts: how the ports of a switch are numbered, where a switch has ports.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One of the lanes that a link is at both of its ends, 0 ≤ lane < Link::lanes.
struct LinkLane {
  LinkId link;
  int32_t lane = 0;
  bool operator==(const LinkLane&) const = default;
};

// The input ports of a switch node are the lanes of the links into it, its output ports those of
// the links out of it, both numbered from 0 in link order, the lanes of a link one behind the
// other. So where links come as cables, port p in and port p out are the two ways of one lane of
// one cable. A stream on a lane of a link leaves one switch and enters the next by that lane.
//   cost  O(links of the node)      threads  safe: does not change
class SwitchPorts {
 public:
  // `topology` outlives this; `node` is one of its switches.
  SwitchPorts(const Topology& topology, NodeId node);

  int32_t input_count() const { return first_input_.back(); }
  int32_t output_count() const { return first_output_.back(); }
  // The port of a lane of a link into, or out of, the switch.   cost  O(log links)
  int32_t input(LinkLane lane) const { return port_of(links_in_, first_input_, lane); }
  int32_t output(LinkLane lane) const { return port_of(links_out_, first_output_, lane); }
  // Which lane of which link a port is, 0 ≤ port < the count.   cost  O(log links)
  LinkLane lane_of_input(int32_t port) const { return lane_of(links_in_, first_input_, port); }
  LinkLane lane_of_output(int32_t port) const { return lane_of(links_out_, first_output_, port); }

 private:
  using Firsts = std::vector<int32_t>;  // the first port of each link, then how many there are
  static int32_t port_of(std::span<const LinkId> links, const Firsts& firsts, LinkLane lane);
  static LinkLane lane_of(std::span<const LinkId> links, const Firsts& firsts, int32_t port);

  std::span<const LinkId> links_in_, links_out_;  // ascending
  Firsts first_input_, first_output_;
};

}  // namespace pleach
