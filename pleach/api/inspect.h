// What topologies, schedules and registries look like from outside: summaries to print.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/bounds.h"
#include "pleach/collective/schedule.h"
#include "pleach/topology/metrics.h"
#include "pleach/topology/topology.h"

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

// Summarises a topology; the bounds are over all of its ranks, with root 0.
Result<TopologySummary> summarize(const Topology& topology);

struct ScheduleSummary {
  std::string algorithm;
  std::string options;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t rank_count = 0;
  int32_t step_count = 0;
  std::vector<int32_t> phase_steps;
  int32_t chunk_count = 0;
  int64_t transfer_count = 0;
  int64_t max_transfers_per_link_step = 0;  // 1: no two messages meet on a link in a step
  int32_t period = 1;
  bool symmetric = false;
  Certificate certificate;
};

// Summarises a well-formed schedule of `topology`. Cost: O(transfers log transfers).
Result<ScheduleSummary> summarize(const Schedule& schedule, const Topology& topology);

// The registries: topologies, algorithms, policies, workloads, accelerators, transports, models,
// formats.
std::vector<RegistryListing> list_registries();
// Errors: kInvalidArgument listing the known registries.
Result<RegistryListing> list_registry(std::string_view name);

}  // namespace pleach
