// GroupSchedules: the schedules of a trace's groups on a topology, each synthesised once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/collective/schedule.h"
#include "pleach/topology/topology.h"
#include "pleach/training/trace_network.h"
#include "pleach/workload/trace.h"

namespace pleach {

// The node of a trace's rank: the topology's rank of the same number.
NodeId node_of(const Topology& topology, int32_t rank);
std::vector<NodeId> nodes_of(const Topology& topology, const std::vector<int32_t>& ranks);

const std::string& algorithm_for(const FabricOptions& options, CollectiveKind kind);
// Whether the algorithm of a spec does the collective; false for unknown ones.
bool does(const std::string& algorithm_spec, CollectiveKind kind);

// Not thread safe.
class GroupSchedules {
 public:
  GroupSchedules(const Topology& topology, const Trace& trace, FabricOptions options)
      : topology_(topology), trace_(trace), options_(std::move(options)) {}
  // Errors: those of synthesize.
  Result<std::shared_ptr<const Schedule>> collective(int32_t family, int32_t group,
                                                     CollectiveKind kind);
  // One transfer.
  Result<std::shared_ptr<const Schedule>> message(int32_t source_rank, int32_t target_rank);

 private:
  const Topology& topology_;
  const Trace& trace_;
  const FabricOptions options_;
  std::map<std::tuple<int32_t, int32_t, CollectiveKind>, std::shared_ptr<const Schedule>>
      collectives_;
  std::map<std::pair<int32_t, int32_t>, std::shared_ptr<const Schedule>> messages_;
};

}  // namespace pleach
