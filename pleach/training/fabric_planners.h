// FabricPlanners: who plans the collectives of a trace's families on a topology.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"
#include "pleach/training/trace_network.h"
#include "pleach/workload/trace.h"

namespace pleach {

// The node of a trace's rank: the topology's rank of the same number.
NodeId node_of(const Topology& topology, int32_t rank);
std::vector<NodeId> nodes_of(const Topology& topology, const std::vector<int32_t>& ranks);

// That every schedule file among the options' sources is of a group of a family that it serves.
//   errors  kInvalidArgument: one that would never be used; those of make_planner
Status check_schedule_files(const Topology& topology, const Trace& trace,
                            const FabricOptions& options);

// One planner for each source that the options name, made when it is first asked for. Not thread
// safe.
class FabricPlanners {
 public:
  // Borrows `topology` and `trace`.
  FabricPlanners(const Topology& topology, const Trace& trace, FabricOptions options)
      : topology_(topology), trace_(trace), options_(std::move(options)) {}

  // Of a family's collectives of a kind; lives as long as this. Errors: those of make_planner.
  Result<Planner*> planner(int32_t family, CollectiveKind kind);

 private:
  const Topology& topology_;
  const Trace& trace_;
  const FabricOptions options_;
  std::map<std::string, std::unique_ptr<Planner>> planners_;  // by source
};

}  // namespace pleach
