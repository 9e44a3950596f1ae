// SwitchConfigurations: what the switches of a network are configured for in a training, phase by
// phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/fabric/configuration.h"
#include "pleach/fabric/control_unit.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/topology/topology.h"
#include "pleach/training/phase_streams.h"
#include "pleach/training/training_phases.h"
#include "pleach/workload/strategy.h"

namespace pleach {

// What becomes of streams that switches cannot carry at once.
//   kWait       they take turns: each goes in the first turn that carries it
//   kDecompose  the groups that are named become rings of their ranks, after the others
//   kFail       an error that names them
enum class OnConflict : uint8_t { kWait, kDecompose, kFail };
Result<OnConflict> parse_on_conflict(std::string_view text);

struct ConfigureOptions {
  std::vector<std::string> algorithms = {"in_switch", "ring", "direct"};  // of each group the first
                                                                          // that can
  OnConflict on_conflict = OnConflict::kWait;
  int64_t memory_bytes = kConfigurationMemoryBytes;  // of a switch
  BitCount bits = BitCount::kExact;
  RouteOptions routing = {};
};

inline constexpr int32_t kIdle = -1;
inline constexpr int32_t kUnicast = 0;  // an index that takes no memory (ControlUnit)

// One switch of FRED's cells.
struct ConfiguredSwitch {
  NodeId node;
  FredSize size;
  int64_t capacity = 0;  // configurations that its memory holds
  // Those of indices 1, 2, ...: flows, each set once, and the modes of its cells.
  std::vector<std::vector<PortFlow>> flows;
  std::vector<Configuration> modes;

  bool fits() const { return static_cast<int64_t>(flows.size()) <= capacity; }
};

// What flows at once through all switches.
struct ConfiguredTurn {
  int32_t step = 0;  // of its phase
  int32_t round = 0;
  std::vector<int32_t> groups;  // of the round, ascending
  std::vector<int32_t> index;   // of each switch: kIdle, kUnicast, or of a configuration
};

// Streams of a step that cannot flow at once.
struct PhaseConflict {
  int32_t step = 0;
  int32_t round = 0;
  NodeId node;                  // the switch; none where a link is full
  LinkId link;                  // the link
  int32_t level = 0;            // of the switch (FlowConflict)
  std::vector<int32_t> groups;  // of the round, ascending
  bool proved = false;          // else their streams may flow at once on lanes that were not tried
};

struct ConfiguredPhase {
  TrainingPhase phase;
  std::vector<std::string> algorithms = {};
  int32_t step_count = 0;
  LinkLoad load = {};
  std::vector<ConfiguredTurn> turns = {};
  std::vector<PhaseConflict> conflicts = {};  // one per step at most
  std::string decomposed_from = {};           // rings in place of a phase's groups; else empty
};

struct SwitchConfigurations {
  std::vector<ConfiguredSwitch> switches;  // by node
  std::vector<ConfiguredPhase> phases;
};

// Configures each switch of FRED's cells for each phase of a training: the flows of each step, all
// groups at once. A switch through which unicasts pass alone is told nothing, where its online
// routing finds a way for each, or where a step is of unicasts alone and some share a port: then
// they alternate packet by packet. Else a stream holds one lane of each link.
//   returns  configured that may not fit() the memory; the same for the same input
//   errors   those of training_phases() and PhasePlanner; kInfeasible: with kFail what is in each
//            other's way (names phase, switch and ranks), and a stream that no idle switch carries
//   source   FRED, ISCA 2025, sec. 5.2 (configurations per phase, four ways out of a conflict)
Result<SwitchConfigurations> configure_switches(const Topology& topology, const Strategy& strategy,
                                                const ConfigureOptions& options = {});

// The groups of a phase of one round that kDecompose would take out, and why: of each conflict that
// is left when those before it are out.
//   errors  those of PhasePlanner
struct GroupsInConflict {
  std::vector<int32_t> groups;  // ascending; none: all flow at once, step by step
  std::vector<PhaseConflict> conflicts;
};
Result<GroupsInConflict> groups_in_conflict(const Topology& topology, const TrainingPhase& phase,
                                            Planner& planner, const RouteOptions& options = {});

// "tensor, step 1: switch a cannot carry at once, level 0: groups 0 (0,2), 1 (1,4)".
std::string conflict_text(const Topology& topology, const TrainingPhase& phase,
                          const PhaseConflict& conflict);

}  // namespace pleach
