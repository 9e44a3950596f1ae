// TrainingPhase: what groups of nodes communicate at the same time in a training.
#pragma once

#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/topology/topology.h"
#include "pleach/workload/strategy.h"

namespace pleach {

using NodeGroup = std::vector<NodeId>;  // of a broadcast or reduce the root first

struct TrainingPhase {
  std::string name;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  // One after the other, each of groups that do it at once. A broadcast of two nodes is a message.
  std::vector<std::vector<NodeGroup>> rounds;
};

// The phases of a training of `strategy` on `topology`, whose ranks are numbered as its rank_nodes.
// Phases in which nobody has anybody to talk to are left out.
//   tensor             all_reduce; with tensor_sequence reduce_scatter, and all_gather
//   sequence, expert   all_to_all
//   pipeline forward   from each stage to the next, all stages at once; where weights stream, the
//                      one after the last is the first
//   pipeline backward  the same to the one before
//   data, expert data  all_reduce; from ZeRO stage 1 on reduce_scatter, and all_gather
//   stream in          where the topology has I/O nodes: each of them to the ranks that share
//                      weights. In a round no rank is in two groups and no I/O node either; over
//                      all rounds each I/O node is with each group once
//   stream out         the same backwards, reduced
//   errors  kInvalidArgument: ranks of the strategy that the topology lacks
Result<std::vector<TrainingPhase>> training_phases(const Topology& topology,
                                                   const Strategy& strategy);
// Whether it is one of those of I/O nodes.
bool is_io_phase(const Topology& topology, const TrainingPhase& phase);

}  // namespace pleach
