// CostCurve: how long a collective takes against its size, from a simulated schedule.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"
#include "pleach/network/model.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct CurveRequest {
  const Topology& topology;
  Planner& planner;  // of the topology
  // The groups that do the collective at the same time, sharing the network; by rank of a group.
  std::vector<std::vector<NodeId>> groups;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  bool by_io = false;                        // by the topology's I/O nodes (Planner::choose_io)
  std::string model = kDefaultNetworkModel;  // network model
  SimulationOptions simulation = {};         // in it; its segment_count is ignored
  int64_t largest_bytes = int64_t{1} << 30;
  double tolerance = 0.005;  // of the piecewise linear curve, against the simulation
  // Where these are all that will be asked, ≥ 1 byte, in any order: simulated at them alone.
  std::vector<int64_t> sizes_bytes = {};
};

// Piecewise linear between simulated sizes; beyond the last one, its last slope. Immutable; thread
// safe.
class CostCurve {
 public:
  struct Sample {
    int64_t size_bytes = 0;
    int64_t time_ps = 0;
  };
  // Simulates all groups at once at 1 byte, the powers of 8 (of 512 where a simulation has more
  // than 100,000 segments of messages) from 1 KiB, largest_bytes (two sizes at least, for a slope),
  // and the geometric middle of every
  // piece; a piece that is off by more than the tolerance there is split further, up to 40
  // sizes in all. Where the sizes are given, the first and the last of them, and the middle one of
  // those between two. Where the number of segments is looked for, a size between two that are
  // fastest in the same number is simulated in that alone. The time is that of the slowest group. A
  // group of one rank takes none, but by I/O nodes. Sizes are padded (planning/padding.h).
  //   errors  kInvalidArgument: no groups, an empty one, a tolerance ≤ 0, a size < 1; those of the
  //           planner and of the network model
  static Result<CostCurve> measure(const CurveRequest& request);
  // Samples: at least one, ascending in size, ≥ 1 byte. A time below an earlier one is raised to
  // it.
  static CostCurve from_samples(std::vector<Sample> samples);

  // size_bytes ≥ 0; 0 bytes take no time. Never decreases with size.
  int64_t time_ps(int64_t size_bytes) const;
  const std::vector<Sample>& samples() const { return samples_; }

 private:
  std::vector<Sample> samples_;
};

// One message from each source to its target, all at the same time, along the topology's routes. A
// message to oneself takes no time.
struct SendRequest {
  const Topology& topology;
  std::vector<std::pair<NodeId, NodeId>> pairs;
  std::string model = kDefaultNetworkModel;
  SimulationOptions simulation = {};  // its segment_count is ignored
  int64_t largest_bytes = int64_t{1} << 30;
};
Result<CostCurve> measure_send(const SendRequest& request);

}  // namespace pleach
