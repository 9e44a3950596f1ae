#include "pleach/training/group_schedules.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"

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

const std::string& algorithm_for(const FabricOptions& options, CollectiveKind kind) {
  return kind == CollectiveKind::kAllToAll ? options.exchange_algorithm : options.algorithm;
}

bool does(const std::string& algorithm_spec, CollectiveKind kind) {
  const auto found = algorithms().entry_of(algorithm_spec);
  return found && std::ranges::find((*found)->collectives, kind) != (*found)->collectives.end();
}

Result<std::shared_ptr<const Schedule>> GroupSchedules::collective(int32_t family, int32_t group,
                                                                   CollectiveKind kind) {
  const auto known = collectives_.find({family, group, kind});
  if (known != collectives_.end()) {
    return known->second;
  }
  const auto& ranks = trace_.families[at(family)].groups[at(group)];
  PLEACH_ASSIGN(schedule, synthesize({.topology = topology_,
                                      .participants = nodes_of(topology_, ranks),
                                      .collective = kind},
                                     algorithm_for(options_, kind)));
  return collectives_[{family, group, kind}] =
             std::make_shared<const Schedule>(std::move(schedule));
}

Result<std::shared_ptr<const Schedule>> GroupSchedules::message(int32_t source_rank,
                                                                int32_t target_rank) {
  const auto known = messages_.find({source_rank, target_rank});
  if (known != messages_.end()) {
    return known->second;
  }
  PLEACH_ASSIGN(schedule,
                synthesize({.topology = topology_,
                            .participants = nodes_of(topology_, {source_rank, target_rank}),
                            .collective = CollectiveKind::kBroadcast},
                           "direct"));
  return messages_[{source_rank, target_rank}] =
             std::make_shared<const Schedule>(std::move(schedule));
}

}  // namespace pleach
