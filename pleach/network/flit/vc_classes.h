// VC classes: which virtual channels a packet takes on each link of its route.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct VcClasses {
  int32_t count = 1;
  std::vector<std::vector<int32_t>> class_of;  // by route, for each of its links
};

// On wrapping grids two classes, as with datelines: within a dimension a packet keeps to one, the
// second where it passes between the last place and the first. Where that leaves a circle, or there
// is one VC, and off such grids, layers (vc_layers.h).
//   routes  links in order
//   errors  kInfeasible: `vcs` are too few, with the links that would wait for each other;
//           with allow_deadlock those routes share the first layer
Result<VcClasses> assign_vc_classes(const Topology& topology,
                                    std::span<const std::vector<LinkId>> routes, int32_t vcs,
                                    bool allow_deadlock);

// The refusal of `vcs`, with a cycle of links (VcLayers::cycle).
Error too_few_vcs(const Topology& topology, int32_t vcs, const std::vector<LinkId>& cycle);

}  // namespace pleach
