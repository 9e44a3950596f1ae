// Trees of switches: ranks below, one switch at the top, I/O nodes at the switches of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/topology/shapes/common.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct SwitchedTree {
  std::string shape;  // begins errors
  int32_t rank_count = 0;
  // By level from the ranks up, the most nodes below a switch: consecutive ones, of which the last
  // switch may have fewer. The topmost level is one switch.
  std::vector<int32_t> fan_outs;
  Node node_switch;        // every switch, but for its name
  ShapeSettings settings;  // of ranks and their links
  ShapeSettings io;        // of I/O nodes and their links
  int64_t trunk_latency_ps = 0;
  int32_t io_count = 0;
  int32_t taper = 1;      // what a switch's links down have over what it has up
  int32_t lanes = 0;      // of a trunk; 0: as many as there are ranks below it
  int32_t top_count = 1;  // switches that share the work, and the lanes of trunks, of the topmost
};

// Options that such shapes take: switch_latency, trunk_latency, lanes, io, io_bandwidth,
// io_latency.
std::vector<OptionDescriptor> tree_options(const std::string& io_count,
                                           const std::string& io_bandwidth);
// Fills in what those say, and the settings of all shapes.
Result<SwitchedTree> tree_of(const std::string& shape, const Options& options);

// Ranks first, then switches `lLEVEL.NUMBER` level by level, then I/O nodes `ioNUMBER`, shared out
// over the switches of ranks, the first ones one more. A cable joins each of them to its switch, a
// trunk each switch to the one above it: the links of ranks come first, then those of I/O nodes,
// then trunks level by level. So ports of a switch go ranks, I/O, up.
//   errors  kInvalidArgument: a topmost switch with one node below, or fewer lanes than topmost
//           switches; those of TopologyBuilder
Result<Topology> make_switched_tree(const std::string& name, const SwitchedTree& tree);

}  // namespace pleach
