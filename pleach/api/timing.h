// Times one schedule on a topology.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/planning/planner.h"
#include "pleach/report/timing.h"
#include "pleach/topology/link_name.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct TimingRequest {
  std::string model = kDefaultNetworkModel;
  int64_t size_bytes = 0;  // whole buffer of one rank
  SimulationOptions options;
  // find_best_segments() chooses, options.segment_count is ignored.
  bool choose_segments = false;
  // Length of a clock cycle, > 0. None: that of the model, or 1 ns where it has none.
  std::optional<int64_t> cycle_ps = {};
};

// How a planner chooses for what is then timed so.
PlannerOptions planner_options(const TimingRequest& request);

// Whether the request may have its cycle: kInvalidArgument, one that takes no time, or for a model
// that has a clock.
Status check_cycle(const TimingRequest& request);

// Simulates schedules (correct, of this topology; at least one) that start together, each on a
// buffer of the size, once or once per segment count tried. The time is that of the last.
//   errors  those of check_cycle() and simulate()
Result<Timing> time_together(const Topology& topology,
                             std::span<const std::shared_ptr<const Schedule>> schedules,
                             const TimingRequest& request);

// Simulates `schedule` (correct, of this topology) once, or once per segment count tried.
//   errors  those of check_cycle() and simulate()
Result<Timing> time_schedule(const Topology& topology,
                             const std::shared_ptr<const Schedule>& schedule,
                             const TimingRequest& request);

}  // namespace pleach
