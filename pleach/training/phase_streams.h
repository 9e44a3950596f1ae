// PhaseStream: what a phase of a training asks of links and switches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/planning/planner.h"
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

// A phase by the schedules that `planner` has for its groups; messages take the topology's routes.
//   errors  those of the planner and of Router
//   cost    O(transfers)
Result<PhaseSteps> phase_steps(const Topology& topology, const TrainingPhase& phase,
                               Planner& planner);

// How many streams are on the link that most are on: of a round the most of any step, and those of
// all rounds together, which take turns packet by packet. Of several links the first.
struct LinkLoad {
  int32_t streams = 0;
  LinkId link = {};  // of no streams: none
};
LinkLoad most_loaded_link(const Topology& topology, const PhaseSteps& steps);

}  // namespace pleach
