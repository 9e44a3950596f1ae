// Traffic patterns: who sends to whom, in synthetic traffic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct TrafficPattern {
  std::string name;
  std::string summary;
  // By rank, the one that it sends to; empty: any, itself included, drawn for each packet.
  //   errors  kInvalidArgument: the topology cannot have the pattern
  Result<std::vector<int32_t>> (*targets)(const Topology& topology);
};

Registry<TrafficPattern> traffic_patterns();

}  // namespace pleach
