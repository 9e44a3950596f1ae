// Random trees of ranks, switches and cables.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/topology/topology.h"

namespace pleach::support {

// Switches that hang on each other, and ranks on them or, now and then, on ranks that forward; the
// two ways of a cable differ in bandwidth, and some cables are two. One switch and two ranks at the
// least.
inline Topology random_tree(int32_t switches, int32_t ranks, Rng& rng) {
  TopologyBuilder builder("tree");
  std::vector<NodeId> open;  // on which more can hang
  for (int32_t node = 0; node < switches + ranks; ++node) {
    const bool is_switch = node < switches;
    const bool forwards = !is_switch && rng.below(4) == 0;
    const NodeId added = builder
                             .add_node({.name = std::to_string(node),
                                        .kind = is_switch ? NodeKind::kSwitch : NodeKind::kRank,
                                        .forwards = forwards})
                             .value();
    if (!open.empty()) {
      const NodeId other = open[rng.below(open.size())];
      for (auto cables = 1 + rng.below(5) / 4; cables > 0; --cables) {
        for (const auto& [source, target] : {std::pair(added, other), std::pair(other, added)}) {
          Link link;
          link.source = source;
          link.target = target;
          link.bandwidth_bytes_per_s = 1 + static_cast<int64_t>(rng.below(40));
          EXPECT_TRUE(builder.add_link(link));
        }
      }
    }
    if (is_switch || forwards) {
      open.push_back(added);
    }
  }
  Result<Topology> built = std::move(builder).build();
  EXPECT_TRUE(built) << built.error().message;
  return std::move(built).value();
}

}  // namespace pleach::support
