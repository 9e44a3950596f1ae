// Synthetic traffic through routers: what came through, and how long it took.
#pragma once

#include <cstdint>
#include <string>

#include "pleach/network/flit/traffic.h"

namespace pleach {

struct RouterTraffic {
  std::string topology;
  std::string model;  // "flit,vcs=4"
  TrafficOptions options = {};
  TrafficResult result = {};
  double cpu_s = 0;  // of this process, for the run

  double cycles_per_cpu_s() const {
    return cpu_s > 0 ? static_cast<double>(result.cycles) / cpu_s : 0;
  }
};

// One line: the JSON object of docs/cli.md, "traffic".
std::string to_json(const RouterTraffic& traffic);
// "latency_cycles,packets", a line for each latency that occurred, after a line of titles.
std::string latencies_csv(const RouterTraffic& traffic);

}  // namespace pleach
