// How long a schedule takes, and how busy that keeps the links.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/collective/schedule.h"
#include "pleach/network/model.h"
#include "pleach/report/schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Over all links of a topology; all zero when the model has none.
struct LinksInUse {
  int64_t bytes = 0;            // on all links, headers included
  double utilization_mean = 0;  // bytes carried / bytes that the bandwidth had carried in the time
  double busy_mean = 0;         // time with something in transmission / time
  // The link whose bytes take longest at its bandwidth, "0->1"; empty when the model has no links.
  std::string bottleneck;
  double bottleneck_utilization = 0;
  double bottleneck_busy = 0;
};

struct Timing {
  std::string model;
  int64_t size_bytes = 0;  // whole buffer of one rank
  int32_t segment_count = 1;
  int64_t time_ps = 0;
  int64_t cycles = 0;  // simulated, where the model has a clock; else begun ones
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
  bool messages_are_free = false;  // on this topology (topology/metrics.h)
  LinksInUse links;
  Simulation simulation;
};

// 0 without time.
double algbw_bytes_per_s(int64_t size_bytes, int64_t time_ps);

// Bytes that a link carried over those that its bandwidth had carried in `time_ps`; 0 without time.
double utilization(const LinkUse& use, const Link& link, int64_t time_ps);

// A group of those that were timed together.
struct GroupTiming {
  std::vector<std::string> nodes;  // names, by rank
  std::string root = {};           // its name, where the collective has one
  int64_t time_ps = 0;
};

// One line: the JSON object of docs/cli.md, "simulate". `wall_s`: how long the command took.
//   groups  where several were timed, else empty
std::string to_json(const ScheduleSummary& schedule, const Timing& timing, double wall_s,
                    const Topology& topology, std::span<const GroupTiming> groups = {});

// One line per link of `topology`, on which the timing was made, after a line of titles; with the
// cycles that were simulated, where the model has a clock, and what it has counted of each link.
std::string links_csv(const Topology& topology, const Timing& timing);
// The one collective, after a line of titles.
std::string collectives_csv(const Schedule& schedule, const Timing& timing);

}  // namespace pleach
