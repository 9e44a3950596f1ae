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
  std::function<void(const std::string& what)> progress = {};  // called before each case
};

// A row for every case, model and size, in this order; what cannot be is a refusal instead, with
// its reason: a case whose algorithm or file does not do the collective, does not fit the topology
// or is of other work than the cases before it; a size that a model cannot simulate. all_to_all has
// sizes rounded down to whole blocks of its ranks.
//   errors  kInvalidArgument: unknown algorithms and options, malformed files and what is asked for
//           twice, before anything is timed; nothing is possible
Result<Comparison> compare(const ComparisonRequest& request);

}  // namespace pleach
