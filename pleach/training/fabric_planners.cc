#include "pleach/training/fabric_planners.h"

#include "pleach/base/index.h"
#include "pleach/base/options.h"
#include "pleach/planning/list_planner.h"

namespace pleach {

NodeId node_of(const Topology& topology, int32_t rank) {
  return topology.rank_nodes()[at(rank)];
}

std::vector<NodeId> nodes_of(const Topology& topology, const std::vector<int32_t>& ranks) {
  std::vector<NodeId> nodes;
  nodes.reserve(ranks.size());
  for (const int32_t rank : ranks) {
    nodes.push_back(node_of(topology, rank));
  }
  return nodes;
}

const std::string& FabricPlanners::source_of(int32_t family, CollectiveKind kind) const {
  const auto own = options_.family_algorithms.find(trace_.families[at(family)].name);
  if (own != options_.family_algorithms.end()) {
    return own->second;
  }
  return kind == CollectiveKind::kAllToAll ? options_.exchange_algorithm : options_.algorithm;
}

Result<Planner*> FabricPlanners::planner(int32_t family, CollectiveKind kind) {
  std::unique_ptr<Planner>& planner = planners_[source_of(family, kind)];
  if (planner == nullptr) {
    PLEACH_ASSIGN(sources, split_specs(source_of(family, kind)));
    PLEACH_SET(planner, make_list_planner(topology_, sources,
                                          {.segment_count = options_.segment_count,
                                           .model = options_.model,
                                           .wants_certificate = false}));
  }
  return planner.get();
}

}  // namespace pleach
