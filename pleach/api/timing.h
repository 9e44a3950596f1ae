// How long one schedule takes on a topology, and what that means.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct TimingRequest {
  std::string model = "flow";
  int64_t size_bytes = 0;  // whole buffer of one rank
  SimulationOptions options;
  // find_best_segments() chooses, options.segment_count is ignored.
  bool choose_segments = false;
  int64_t cycle_ps = 1000;  // length of a clock cycle
};

struct Timing {
  Simulation simulation;
  int32_t segment_count = 1;
  int64_t time_ps = 0;
  int64_t cycles = 0;  // the model's; of cycle_ps, begun ones, where it has no clock
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
  int64_t bytes_on_wire = 0;         // over all links, headers included
  double link_utilization_mean = 0;  // busy time / time, over all links
  std::string bottleneck_link;       // the busiest, "0->1"; empty when the model has no links
  double bottleneck_utilization = 0;
};

// Simulates `schedule` (correct, of this topology) once, or once per segment count tried.
Result<Timing> time_schedule(const Topology& topology, const Schedule& schedule,
                             const TimingRequest& request);

// "0->1", by the names of the link's ends.
std::string link_name(const Topology& topology, LinkId link);

// The tables of `pleach simulate --csv`: one line per link, and one per collective.
std::string links_csv(const Topology& topology, const Timing& timing);
std::string collectives_csv(const Schedule& schedule, const TimingRequest& request,
                            const Timing& timing);

}  // namespace pleach
