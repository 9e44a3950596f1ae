#include "pleach/report/switch_configurations.h"

#include <algorithm>

#include "pleach/base/index.h"
#include "pleach/fabric/control_unit.h"
#include "pleach/report/json.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

// Four bits a letter, the first bit the highest; the last letter is filled with zeros.
std::string hexadecimal(const std::vector<bool>& bits) {
  std::string text;
  for (std::size_t first = 0; first < bits.size(); first += 4) {
    std::size_t value = 0;
    for (std::size_t bit = first; bit < first + 4; ++bit) {
      value = 2 * value + (bit < bits.size() && bits[bit] ? 1 : 0);
    }
    text += "0123456789abcdef"[value];
  }
  return text;
}

Json names_of(const Topology& topology, const NodeGroup& group) {
  Json names = Json::array();
  for (const NodeId node : group) {
    names.push_back(topology.node(node).name);
  }
  return names;
}

Json conflict_json(const Topology& topology, const ConfiguredPhase& phase,
                   const PhaseConflict& conflict) {
  Json json = {{"step", conflict.step}, {"switch", nullptr}, {"link", nullptr}};
  if (conflict.node.value >= 0) {
    json["switch"] = topology.node(conflict.node).name;
  } else {
    json["link"] = link_name(topology, conflict.link);
  }
  json["level"] = conflict.level;
  json["proved"] = conflict.proved;
  json["groups"] = Json::array();
  for (const int32_t group : conflict.groups) {
    json["groups"].push_back(names_of(topology, phase.phase.rounds[at(conflict.round)][at(group)]));
  }
  return json;
}

Json phase_json(const ConfigurationsReport& report, const ConfiguredPhase& phase) {
  const int64_t changes = most_changes(phase);
  Json json = {{"phase", phase.phase.name},
               {"collective", to_text(phase.phase.collective)},
               {"groups", Json::array()},
               {"algorithms", phase.algorithms},
               {"steps", phase.step_count},
               {"link_streams", phase.load.streams},
               {"link", nullptr},
               {"changes", changes},
               {"reconfiguration_s", seconds(changes * report.reconfiguration_ps)},
               {"decomposed_from", nullptr},
               {"conflicts", Json::array()},
               {"turns", Json::array()}};
  for (const std::vector<NodeGroup>& round : phase.phase.rounds) {
    Json groups = Json::array();
    for (const NodeGroup& group : round) {
      groups.push_back(names_of(report.topology, group));
    }
    json["groups"].push_back(std::move(groups));
  }
  if (phase.load.streams > 0) {
    json["link"] = link_name(report.topology, phase.load.link);
  }
  if (!phase.decomposed_from.empty()) {
    json["decomposed_from"] = phase.decomposed_from;
  }
  for (const PhaseConflict& conflict : phase.conflicts) {
    json["conflicts"].push_back(conflict_json(report.topology, phase, conflict));
  }
  for (const ConfiguredTurn& turn : phase.turns) {
    json["turns"].push_back({{"step", turn.step},
                             {"round", turn.round},
                             {"groups", turn.groups},
                             {"index", turn.index}});
  }
  return json;
}

Json switch_json(const ConfigurationsReport& report, int32_t number) {
  const ConfiguredSwitch& own = report.configured.switches[at(number)];
  const auto cells = FredSwitch::create(own.size);
  Json json = {{"switch", report.topology.node(own.node).name},
               {"ports", own.size.ports},
               {"middle", own.size.middle},
               {"configuration_bits", configuration_bits(own.size, BitCount::kPublished)},
               {"configuration_bits_exact", configuration_bits(own.size, BitCount::kExact)},
               {"capacity", own.capacity},
               {"fits", own.fits()},
               {"configurations", Json::array()}};
  for (int32_t index = 1; index <= count_of(own.flows); ++index) {
    json["configurations"].push_back(
        {{"index", index},
         {"flows", flows_text(own.flows[at(index - 1)])},
         {"phases", users_of(report.configured, number, index)},
         {"bits", hexadecimal(encode_configuration(*cells, own.modes[at(index - 1)]))}});
  }
  return json;
}

}  // namespace

std::vector<std::string> users_of(const SwitchConfigurations& configured, int32_t number,
                                  int32_t index) {
  std::vector<std::string> users;
  for (const ConfiguredPhase& phase : configured.phases) {
    const bool uses = std::ranges::any_of(
        phase.turns, [&](const ConfiguredTurn& turn) { return turn.index[at(number)] == index; });
    if (uses && std::ranges::find(users, phase.phase.name) == users.end()) {
      users.push_back(phase.phase.name);
    }
  }
  return users;
}

int64_t most_changes(const ConfiguredPhase& phase) {
  int64_t most = 0;
  const std::size_t switches = phase.turns.empty() ? 0 : phase.turns.front().index.size();
  for (std::size_t number = 0; number < switches; ++number) {
    int64_t changes = 0;
    int32_t now = kIdle;
    for (const ConfiguredTurn& turn : phase.turns) {
      const int32_t index = turn.index[number];
      changes += index > kUnicast && index != now ? 1 : 0;
      now = index == kIdle ? now : index;
    }
    most = std::max(most, changes);
  }
  return most;
}

std::string to_json(const ConfigurationsReport& report) {
  Json json = {{"topology", report.topology.name()},
               {"strategy", to_text(report.strategy)},
               {"memory_bytes", report.options.memory_bytes},
               {"fits", std::ranges::all_of(report.configured.switches, &ConfiguredSwitch::fits)},
               {"phases", Json::array()},
               {"switches", Json::array()}};
  for (const ConfiguredPhase& phase : report.configured.phases) {
    json["phases"].push_back(phase_json(report, phase));
  }
  for (int32_t number = 0; number < count_of(report.configured.switches); ++number) {
    json["switches"].push_back(switch_json(report, number));
  }
  return line_of(json);
}

}  // namespace pleach
