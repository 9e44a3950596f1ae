#include "pleach/training/group_schedules.h"

#include <algorithm>

#include "pleach/synthesis/algorithm.h"

namespace pleach {

NodeId node_of(const Topology& topology, int32_t rank) {
  return topology.rank_nodes()[static_cast<std::size_t>(rank)];
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
  const std::string name = algorithm_spec.substr(0, algorithm_spec.find(','));
  const auto all = algorithms();
  return std::any_of(all.begin(), all.end(), [&](const Algorithm* one) {
    return one->name == name && std::find(one->collectives.begin(), one->collectives.end(), kind) !=
                                    one->collectives.end();
  });
}

Result<const Schedule*> GroupSchedules::collective(int32_t family, int32_t group,
                                                   CollectiveKind kind) {
  const auto known = collectives_.find({family, group, kind});
  if (known != collectives_.end()) {
    return static_cast<const Schedule*>(&known->second);
  }
  const auto& ranks =
      trace_.families[static_cast<std::size_t>(family)].groups[static_cast<std::size_t>(group)];
  PLEACH_ASSIGN(schedule, synthesize({.topology = topology_,
                                      .participants = nodes_of(topology_, ranks),
                                      .collective = kind},
                                     algorithm_for(options_, kind)));
  auto& kept = collectives_[{family, group, kind}];
  kept = std::move(schedule);
  return static_cast<const Schedule*>(&kept);
}

Result<const Schedule*> GroupSchedules::message(int32_t source_rank, int32_t target_rank) {
  const auto known = messages_.find({source_rank, target_rank});
  if (known != messages_.end()) {
    return static_cast<const Schedule*>(&known->second);
  }
  PLEACH_ASSIGN(schedule,
                synthesize({.topology = topology_,
                            .participants = nodes_of(topology_, {source_rank, target_rank}),
                            .collective = CollectiveKind::kBroadcast},
                           "direct"));
  auto& kept = messages_[{source_rank, target_rank}];
  kept = std::move(schedule);
  return static_cast<const Schedule*>(&kept);
}

}  // namespace pleach
