// Times several schedules at several sizes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pleach/api/timing.h"
#include "pleach/base/result.h"
#include "pleach/planning/planner.h"
#include "pleach/report/comparison.h"
#include "pleach/topology/topology.h"

namespace pleach {

// One schedule to obtain.
struct ComparisonCase {
  const Topology* topology = nullptr;  // borrowed
  std::string topology_text;           // how rows call it
  std::string source;                  // an algorithm's spec or a file (planning/planner.h)
  ScheduleRequest request;
};

struct ComparisonRequest {
  std::vector<ComparisonCase> cases;
  std::vector<std::string> models;
  std::vector<int64_t> sizes_bytes;
  TimingRequest how;  // its model and size are those of the row
  std::function<void(const std::string& what)> progress = [](const std::string&) {};
};

// A row for every case, model and size, in this order. A case whose algorithm cannot do the
// collective or does not fit the topology (kInfeasible, kUnsupported) is a refusal instead.
//   errors  kInvalidArgument: unknown algorithms and options and what is asked for twice, before
//           anything is timed; every case is refused; those of obtain_schedule and time_schedule
Result<Comparison> compare(const ComparisonRequest& request);

}  // namespace pleach
