// What is known of a FRED switch and of flows through it: structure, routing, studies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/fabric/configuration.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/fred_study.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/placement_study.h"

namespace pleach {

struct FredRouting {
  const FredSwitch* fred = nullptr;  // outlives it
  std::vector<PortFlow> flows;
  FlowRouting routing = {};
  Configuration modes = {};                 // of each cell; of flows that do not route, empty
  std::vector<FredFaults> in_the_way = {};  // of each conflict (faults_in_the_way())
};

struct FredMemory {
  int64_t bytes = 0;
  int64_t published_bits = 0;  // of a configuration; see BitCount
  int64_t exact_bits = 0;

  int64_t published_phases() const { return 8 * bytes / published_bits; }
  int64_t exact_phases() const { return 8 * bytes / exact_bits; }
};
FredMemory memory_of(const FredSize& size, int64_t bytes);

struct FredStudyRow {
  FredSize size;
  RouteCount count;
  std::string of = {};  // what sets are made of, where rows differ in it: "8 flows of 4"
  std::vector<std::string> refused;  // of placements: "DP of MP5-DP4-PP1"
  double wall_s = 0;
  double most_wall_s = 0;   // of one set, where each is timed
  bool is_sample = false;   // of random sets; false: these are all of them
  FaultSample faults = {};  // drawn anew for each set

  // That route; of all of them there is nothing to be unsure of.
  Share share() const;
};

// Of rows that differ in m alone and have random faults: the least of these m from which on all
// sets route but those that are cut off; 0: not even with the largest.
struct LeastAliveRow {
  const FredStudyRow* row = nullptr;  // the first of them
  int32_t middle = 0;
};
std::vector<LeastAliveRow> least_alive(std::span<const FredStudyRow> rows);

// A workload's strategy, and the least m with which it routes.
struct LeastMiddleRow {
  StrategyOfWorkload workload;
  LeastMiddle least;
};

// One line each: the JSON objects of docs/cli.md, "fred".
std::string to_json(const FredRouting& routing);
// `routing` null: the structure alone.
std::string to_json(const FredSwitch& fred, const FredMemory& memory, const FredRouting* routing);
std::string flows_json(const std::string& pattern, std::span<const std::vector<PortFlow>> phases);
std::string study_json(const std::string& study, std::span<const FredStudyRow> rows);
std::string least_middle_json(int32_t ports, std::span<const LeastMiddleRow> rows);

// The switch as a picture: stages from left to right, wires in the colour of the flow on them, dead
// cells dark and dashed.
//   errors  kInvalidArgument: too many cells for a picture
Result<std::string> fred_svg(const FredSwitch& fred, const FredRouting* routing);
// The same for Graphviz.
Result<std::string> fred_dot(const FredSwitch& fred, const FredRouting* routing);

// The flow on each wire, −1: none.
std::vector<int32_t> flows_on_wires(const FredSwitch& fred, const FredRouting* routing);

}  // namespace pleach
