// A topology, described: its size, its narrowest cut, and what is possible on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/collective/bounds.h"
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
  Bisection bisection;
  Diameter diameter;
  std::vector<CollectiveBound> bounds;
};

// One line: the JSON object of docs/cli.md, "topology".
std::string to_json(const TopologySummary& summary);

}  // namespace pleach
