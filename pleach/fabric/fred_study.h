// How often flows route through a FRED switch: exact counts and samples.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/base/rng.h"
#include "pleach/fabric/fred_router.h"

namespace pleach {

// A few sets of flows of one kind, and how many of them route.
struct RouteCount {
  int64_t sets = 0;
  int64_t routed = 0;
  int64_t refused = 0;       // proved; what is left was given up
  int64_t first_routed = 0;  // by the first colouring of each level, without going back
  int64_t cut_off = 0;       // of the refused: a flow has a port whose own cell is dead
  int64_t most_steps = 0;    // of one set
  std::vector<PortFlow> refused_example;  // the first
  FredFaults refused_dead;                // what of its switch was dead

  int64_t given_up() const { return sets - routed - refused; }
  // Routes one more set, and counts it.
  void add(const FredSize& size, const std::vector<PortFlow>& flows, const RouteOptions& options);
  // The same of several that are asked for one after the other, as one: they route if all do.
  void add_all(const FredSize& size, std::span<const std::vector<PortFlow>> sets,
               const RouteOptions& options);
};

// Every partition of the ports into all-reduces, those of one port among them.
//   errors  kInvalidArgument: more than kMostPartitionPorts ports
constexpr int32_t kMostPartitionPorts = 12;
Result<RouteCount> count_partitions(const FredSize& size, const RouteOptions& options);

// A strategy on one switch, a worker at each port: worker (mp, dp, pp) is at port
// mp + MP · (pp + PP · dp).
struct SwitchStrategy {
  int32_t model = 1;     // MP
  int32_t data = 1;      // DP
  int32_t pipeline = 1;  // PP
};
enum class StrategyPhase : uint8_t { kModel, kData, kForward, kBackward };
std::string_view to_text(StrategyPhase phase);  // "MP", "DP", "PP forward", "PP backward"

// All flows of a phase: an all-reduce of every group of MP or DP; of PP the first worker of each
// stage to all of the next, or of the one before. None where the dimension is 1.
//   source  FRED, sec. 6 and 7 (placement, who sends to the next stage)
std::vector<PortFlow> strategy_flows(const SwitchStrategy& strategy, StrategyPhase phase);

// Every phase with flows of every strategy of 2 to `size.ports` workers.
struct PlacementCount {
  int64_t strategies = 0;
  RouteCount all;
  struct Refused {
    SwitchStrategy strategy;
    StrategyPhase phase;
  };
  std::vector<Refused> refused;  // or given up
};
PlacementCount count_placements(const FredSize& size, const RouteOptions& options);
// The same through a plane of as many NPUs (plane.h); it counts no first colouring and no steps.
PlacementCount count_plane_placements(const FredSize& size, const RouteOptions& options);

// Disjoint flows of random ports.
struct FlowSample {
  enum class Kind : uint8_t { kAllReduce, kMulticast, kReduce, kMixed };
  Kind kind = Kind::kAllReduce;
  int32_t flows = 1;
  int32_t ports_each = 2;  // of a flow: kMulticast's outputs, kReduce's inputs; kMixed: up to, each
                           // side by itself
};
std::vector<std::string> flow_sample_names();
Result<FlowSample::Kind> parse_flow_sample(std::string_view text);
// Errors: kInvalidArgument: more ports than the switch has.
Status check_sample(const FlowSample& sample, int32_t ports);
std::vector<PortFlow> draw_flows(const FlowSample& sample, int32_t ports, Rng& rng);

// Dead parts of a switch, drawn anew for each set: cells of all levels, without multiplexers, and
// subnetworks of one level.
struct FaultSample {
  int32_t cells = 0;
  int32_t subnetworks = 0;
  int32_t level = 1;  // of the subnetworks
  bool empty() const { return cells == 0 && subnetworks == 0; }
  bool operator==(const FaultSample&) const = default;
};
// Errors: kInvalidArgument: more than the switch has.
Status check_sample(const FaultSample& sample, const FredSize& size);
FredFaults draw_faults(const FaultSample& sample, const FredSize& size, Rng& rng);

// A share of `trials`, with the ends of its 95 % confidence interval.
//   source  Wilson 1927
struct Share {
  double value = 0;
  double low = 0;
  double high = 0;
};
Share share_of(int64_t hits, int64_t trials);

}  // namespace pleach
