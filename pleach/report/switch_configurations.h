// The configured of a network's switches for a training, as they are shown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/topology/topology.h"
#include "pleach/training/switch_configurations.h"
#include "pleach/workload/strategy.h"

namespace pleach {

struct ConfigurationsReport {
  const Topology& topology;
  const Strategy& strategy;
  const ConfigureOptions& options;
  const SwitchConfigurations& configured;
  int64_t reconfiguration_ps = 0;  // of a switch that changes its configuration
};

// The phases in whose turns a switch has an index, each once.
std::vector<std::string> users_of(const SwitchConfigurations& configured, int32_t number,
                                  int32_t index);
// How often the switch that does it most changes its configuration in one pass of a phase: from
// whatever it had before to the first, and from turn to turn. Unicast is none to change to.
int64_t most_changes(const ConfiguredPhase& phase);

// One line: the JSON object of docs/cli.md, "fred compile".
std::string to_json(const ConfigurationsReport& report);

}  // namespace pleach
