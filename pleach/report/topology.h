// A topology, described: its size, its narrowest cut, and what is possible on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/collective/bounds.h"
#include "pleach/fabric/switch_parts.h"
#include "pleach/topology/metrics.h"

namespace pleach {

struct CollectiveBound {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  Bound bound;
};

struct TopologySummary {
  std::string name;
  int32_t rank_count = 0;
  int32_t node_count = 0;
  int32_t link_count = 0;
  // The least and the most of all switches, and of all links; none: there are none.
  struct Span {
    int64_t least = 0;
    int64_t most = 0;
  };
  std::optional<Span> switch_latency_ps;
  std::optional<Span> lanes;
  // Switches that are alike, in the order of the first of each.
  struct Switches {
    std::string model;  // NAME[,key=value...]
    int32_t ports = 0;  // in or out, whichever are more
    int32_t count = 0;
  };
  std::vector<Switches> switches = {};
  std::optional<SwitchParts> parts = {};
  Bisection bisection;
  int64_t proportional_bisection_bytes_per_s = 0;
  Diameter diameter;
  std::vector<CollectiveBound> bounds;
};

// One line: the JSON object of docs/cli.md, "topology".
std::string to_json(const TopologySummary& summary);

}  // namespace pleach
