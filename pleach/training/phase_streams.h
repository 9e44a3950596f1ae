// PhaseStream: what a phase of a training asks of links and switches.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/planning/planner.h"
#include "pleach/topology/routes.h"
#include "pleach/topology/switch_pass.h"
#include "pleach/topology/topology.h"
#include "pleach/training/training_phases.h"

namespace pleach {

struct PhaseStream {
  int32_t group = 0;          // of its round
  std::vector<LinkId> links;  // ascending, each once
  std::vector<SwitchPass> passes = {};
  bool operator==(const PhaseStream&) const = default;
};

// What flows at once: a step of the schedules of a round's groups.
struct PhaseStep {
  int32_t round = 0;
  std::vector<PhaseStream> streams;
};

struct PhaseSteps {
  std::vector<std::string> algorithms;  // of the groups, each once; messages have none
  std::vector<PhaseStep> steps;         // one after the other
};

// Phases by the schedules that a planner has for their groups; messages take the topology's routes.
// Remembers what it has been asked for. Not thread safe.
class PhasePlanner {
 public:
  // Borrows both.
  PhasePlanner(const Topology& topology, Planner& planner)
      : topology_(topology), planner_(planner), router_(topology) {}

  // Errors: those of the planner and of Router.   cost  O(transfers)
  Result<PhaseSteps> steps(const TrainingPhase& phase);

 private:
  struct GroupSteps {
    std::string algorithm;  // empty: a message
    std::vector<std::vector<PhaseStream>> steps;
  };
  Result<const GroupSteps*> of_group(CollectiveKind collective, const NodeGroup& nodes);
  Result<GroupSteps> plan(CollectiveKind collective, const NodeGroup& nodes);
  Result<GroupSteps> message(NodeId source, NodeId target);

  const Topology& topology_;
  Planner& planner_;
  Router router_;
  std::map<std::pair<CollectiveKind, NodeGroup>, GroupSteps> known_;
};

// The link of which a stream's part is the least, where all that are on it have the same: of a
// round the most streams of any step, and those of all rounds together, which take turns packet by
// packet. Of several links the first.
struct LinkLoad {
  int32_t streams = 0;
  LinkId link = {};  // of no streams: none
};
LinkLoad most_loaded_link(const Topology& topology, const PhaseSteps& steps);

}  // namespace pleach
