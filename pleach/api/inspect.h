// What topologies, schedules and registries look like from outside.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/report/schedule.h"
#include "pleach/report/schedule_table.h"
#include "pleach/report/topology.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Summarises a topology; the bounds are over all of its ranks, with root 0.
Result<TopologySummary> summarize(const Topology& topology, const PartsModel& parts = {});

// Summarises a well-formed schedule of `topology`. Cost: O(transfers log transfers).
Result<ScheduleSummary> summarize(const Schedule& schedule, const Topology& topology);

// The tables of the network interfaces that would run a well-formed schedule; no rank is listed.
//   size_bytes  the whole buffer, which starts and sizes are bytes of; none: they are chunks
//   errors      kUnsupported naming a switch that would have to reduce or multicast;
//               kInvalidArgument: the size does not fit, or too much to write out
Result<InterfaceTables> tabulate(std::shared_ptr<const Schedule> schedule,
                                 std::optional<int64_t> size_bytes);

// What the certificate says of a buffer of `size_bytes`, in one segment: alpha + beta · size [ps],
// at most kLongestPs + 1.
int64_t estimate_time_ps(const Certificate& certificate, int64_t size_bytes);

// The registries in which there is a choice: topologies, algorithms, policies, workloads,
// accelerators, transports, models, formats, kinds of links; kinds of switches once there are two.
std::vector<RegistryListing> list_registries();
// Errors: kInvalidArgument listing the known registries.
Result<RegistryListing> list_registry(std::string_view name);

}  // namespace pleach
