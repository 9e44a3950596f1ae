#include "pleach/training/switch_configurations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/names.h"
#include "pleach/base/text.h"
#include "pleach/fabric/online_unicast.h"
#include "pleach/planning/list_planner.h"
#include "pleach/topology/link_name.h"
#include "pleach/training/switch_turn.h"

namespace pleach {
namespace {

constexpr std::array<Name<OnConflict>, 3> kOnConflictNames = {
    {{OnConflict::kWait, "wait"},
     {OnConflict::kDecompose, "decompose"},
     {OnConflict::kFail, "fail"}}};

struct FlowsBefore {
  bool operator()(const std::vector<PortFlow>& one, const std::vector<PortFlow>& other) const {
    return std::ranges::lexicographical_compare(
        one, other, [](const PortFlow& left, const PortFlow& right) {
          return std::tie(left.inputs, left.outputs) < std::tie(right.inputs, right.outputs);
        });
  }
};

// Whether each call finds a way when it comes, in this order.
bool routes_online(const FredSize& size, std::span<const PortFlow> flows) {
  OnlineUnicast online(size, OnlineUnicast::Policy::kFirstFit);
  return std::ranges::all_of(flows, [&](const PortFlow& flow) {
    return flow.inputs.size() == 1 && flow.outputs.size() == 1 &&
           online.connect(flow.inputs.front(), flow.outputs.front()).has_value();
  });
}

bool is_unicast(const PhaseStream& stream) {
  return std::ranges::all_of(stream.passes, [](const SwitchPass& pass) {
    return pass.inputs.size() == 1 && pass.outputs.size() == 1;
  });
}

class Compiler {
 public:
  Compiler(const Topology& topology, const ConfigureOptions& options)
      : topology_(topology), options_(options), switches_(topology) {
    indices_.resize(at(switches_.count()));
    for (int32_t number = 0; number < switches_.count(); ++number) {
      const FredSize& size = switches_.size(number);
      result_.switches.push_back({switches_.node(number),
                                  size,
                                  8 * options.memory_bytes / configuration_bits(size, options.bits),
                                  {},
                                  {}});
      if (!cells_.contains(size)) {
        auto cells = FredSwitch::create(size);
        PLEACH_CHECK(cells, "check_switches() has made it before");
        cells_.emplace(size, std::move(cells).value());
      }
    }
  }

  Result<SwitchConfigurations> compile(const Strategy& strategy) {
    PLEACH_ASSIGN(phases, training_phases(topology_, strategy));
    PLEACH_ASSIGN(planner, make_list_planner(topology_, options_.algorithms, planner_options()));
    const std::array<std::string, 2> rings = {"ring", "direct"};
    PLEACH_ASSIGN(endpoint, make_list_planner(topology_, rings, planner_options()));
    PhasePlanner chosen(topology_, *planner), ringed(topology_, *endpoint);
    for (TrainingPhase& phase : phases) {
      const std::string name = phase.name;
      PLEACH_ASSIGN(decomposed, add_phase(std::move(phase), chosen, ""));
      if (!decomposed.rounds.empty()) {
        PLEACH_TRY(add_phase(std::move(decomposed), ringed, name));
      }
    }
    return std::move(result_);
  }

  Result<GroupsInConflict> in_conflict(const TrainingPhase& phase, Planner& planner) {
    PhasePlanner planned(topology_, planner);
    PLEACH_ASSIGN(steps, planned.steps(phase));
    ConfiguredPhase result = {.phase = phase};
    TrainingPhase rings;
    PLEACH_TRY(decompose(result, steps, rings));
    std::set<int32_t> groups;
    for (const PhaseConflict& conflict : result.conflicts) {
      groups.insert(conflict.groups.begin(), conflict.groups.end());
    }
    return GroupsInConflict{{groups.begin(), groups.end()}, std::move(result.conflicts)};
  }

 private:
  static PlannerOptions planner_options() { return {.wants_certificate = false}; }

  // Adds a phase, without the groups that are decomposed, which it returns.
  Result<TrainingPhase> add_phase(TrainingPhase phase, PhasePlanner& planner,
                                  std::string decomposed_from) {
    PLEACH_ASSIGN(steps, planner.steps(phase));
    ConfiguredPhase result = {.phase = std::move(phase),
                              .algorithms = std::move(steps.algorithms),
                              .step_count = count_of(steps.steps),
                              .load = most_loaded_link(topology_, steps),
                              .decomposed_from = std::move(decomposed_from)};
    TrainingPhase rings = {result.phase.name + ", decomposed", result.phase.collective, {}};
    const bool is_first = result.decomposed_from.empty();
    if (is_first && options_.on_conflict == OnConflict::kDecompose) {
      PLEACH_TRY(decompose(result, steps, rings));
    }
    PLEACH_TRY(add_turns(result, steps, options_.on_conflict == OnConflict::kFail));
    result_.phases.push_back(std::move(result));
    return rings;
  }

  // Takes groups out of the steps until what is left is in nobody's way.
  Status decompose(ConfiguredPhase& result, PhaseSteps& steps, TrainingPhase& rings) {
    for (std::size_t index = 0; index < steps.steps.size();) {
      PLEACH_ASSIGN(turns, turns_of(steps.steps[index]));
      if (!turns.conflict) {
        ++index;
        continue;
      }
      PhaseConflict& conflict = result.conflicts.emplace_back(std::move(*turns.conflict));
      conflict.step = static_cast<int32_t>(index);
      std::vector<NodeGroup>& groups = rings.rounds.emplace_back();
      for (const int32_t group : conflict.groups) {
        groups.push_back(result.phase.rounds[at(conflict.round)][at(group)]);
      }
      for (PhaseStep& step : steps.steps) {
        if (step.round == conflict.round) {
          std::erase_if(step.streams, [&](const PhaseStream& stream) {
            return std::ranges::binary_search(conflict.groups, stream.group);
          });
        }
      }
      index = 0;
    }
    return ok();
  }

  // All of them at once.
  std::optional<SwitchTurn> one_turn(const std::vector<PhaseStream>& streams) {
    SwitchTurn whole(switches_, options_.routing);
    const bool flow = whole.add_all(streams) || whole.put_together(streams, joint_) == true;
    return flow ? std::optional(std::move(whole)) : std::nullopt;
  }

  struct Turns {
    std::vector<SwitchTurn> turns;
    std::optional<PhaseConflict> conflict;  // of different groups
    bool alternates = false;                // no turns: packets find their way one by one
  };

  Result<Turns> turns_of(const PhaseStep& step) {
    Turns result;
    const SwitchTurn idle(switches_, options_.routing);
    if (step.streams.empty()) {
      return result;
    }
    if (std::optional<SwitchTurn> whole = one_turn(step.streams)) {
      result.turns.push_back(std::move(*whole));
      return result;
    }
    if (std::ranges::all_of(step.streams, is_unicast)) {
      for (const PhaseStream& stream : step.streams) {
        PLEACH_TRY(carried_alone(stream));
      }
      result.alternates = true;
      return result;
    }
    for (const PhaseStream& stream : step.streams) {
      std::optional<SwitchTurn::Clash> clash;
      bool joined = false;
      for (std::size_t turn = 0; turn < result.turns.size() && !joined; ++turn) {
        clash = result.turns[turn].add_or_move(stream, joint_);
        joined = !clash;
        if (clash && clash->groups.size() > 1 && !result.conflict) {
          result.conflict = {
              0, step.round, clash->node, clash->link, clash->level, clash->groups, clash->proved};
        }
      }
      if (joined) {
        continue;
      }
      PLEACH_TRY(carried_alone(stream));
      result.turns.emplace_back(idle).add_or_move(stream, joint_);
    }
    return result;
  }

  Status carried_alone(const PhaseStream& stream) {
    SwitchTurn idle(switches_, options_.routing);
    const std::optional<SwitchTurn::Clash> clash = idle.add_or_move(stream, joint_);
    if (!clash) {
      return ok();
    }
    return Error{ErrorCode::kInfeasible,
                 fmt::format("{} cannot carry a stream of group {} by itself{}", place_of(*clash),
                             stream.group, clash->dead.empty() ? "" : ": dead is " + clash->dead)};
  }

  std::string place_of(const SwitchTurn::Clash& clash) const {
    return clash.node.value < 0 ? "link " + link_name(topology_, clash.link)
                                : "switch " + topology_.node(clash.node).name;
  }

  Status add_turns(ConfiguredPhase& result, const PhaseSteps& steps, bool fails) {
    std::size_t first = 0;  // turn of the step before
    for (std::size_t index = 0; index < steps.steps.size(); ++index) {
      const PhaseStep& step = steps.steps[index];
      const auto number = static_cast<int32_t>(index);
      if (index > 0 && step.round == steps.steps[index - 1].round &&
          step.streams == steps.steps[index - 1].streams) {
        for (const std::size_t end = result.turns.size(); first < end; ++first) {
          result.turns.push_back(result.turns[first]);
          result.turns.back().step = number;
        }
        continue;
      }
      Result<Turns> turns = turns_of(step);
      if (!turns) {
        return prefixed(result.phase.name, turns.error());
      }
      if (turns->conflict) {
        PhaseConflict& conflict = *turns->conflict;
        conflict.step = number;
        if (fails) {
          return Error{ErrorCode::kInfeasible, conflict_text(topology_, result.phase, conflict)};
        }
        result.conflicts.push_back(std::move(conflict));
      }
      first = result.turns.size();
      if (turns->alternates) {
        result.turns.push_back(alternating(step, number));
      }
      for (const SwitchTurn& turn : turns->turns) {
        const std::set<int32_t> groups = turn.groups();
        result.turns.push_back(
            {number, step.round, {groups.begin(), groups.end()}, indices_of(turn)});
      }
    }
    return ok();
  }

  // All unicasts of a step, which share ports packet by packet.
  ConfiguredTurn alternating(const PhaseStep& step, int32_t number) const {
    std::set<int32_t> groups;
    ConfiguredTurn turn = {number, step.round, {}, std::vector(at(switches_.count()), kIdle)};
    for (const PhaseStream& stream : step.streams) {
      groups.insert(stream.group);
      for (const SwitchPass& pass : stream.passes) {
        if (const int32_t at_switch = switches_.find(pass.node); at_switch >= 0) {
          turn.index[at(at_switch)] = kUnicast;
        }
      }
    }
    turn.groups.assign(groups.begin(), groups.end());
    return turn;
  }

  std::vector<int32_t> indices_of(const SwitchTurn& turn) {
    std::vector<int32_t> indices;
    for (int32_t number = 0; number < switches_.count(); ++number) {
      indices.push_back(index_of(number, turn.flows(number)));
    }
    return indices;
  }

  int32_t index_of(int32_t number, std::vector<PortFlow> flows) {
    const FredSize& size = switches_.size(number);
    if (flows.empty() || routes_online(size, flows)) {
      return flows.empty() ? kIdle : kUnicast;
    }
    ConfiguredSwitch& own = result_.switches[at(number)];
    const auto [known, fresh] = indices_[at(number)].try_emplace(flows, count_of(own.flows) + 1);
    if (fresh) {
      const FlowRouting routing = route_flows(size, flows, options_.routing);
      PLEACH_CHECK(routing.routed, "what has joined a turn routes");
      const FredSwitch& cells = cells_.at(size);
      own.modes.push_back(configure(cells, flows, routing.choices));
      const Status status = check_configuration(cells, flows, own.modes.back());
      PLEACH_CHECK(status.has_value(), "a routing does what its flows ask");
      own.flows.push_back(std::move(flows));
    }
    return known->second;
  }

  const Topology& topology_;
  const ConfigureOptions& options_;
  const CellSwitches switches_;
  JointLanes joint_;
  std::map<FredSize, FredSwitch> cells_;
  std::vector<std::map<std::vector<PortFlow>, int32_t, FlowsBefore>> indices_;  // by switch
  SwitchConfigurations result_;
};

}  // namespace

Result<OnConflict> parse_on_conflict(std::string_view text) {
  return parse_name(kOnConflictNames, "answer to a conflict", text);
}

Result<SwitchConfigurations> configure_switches(const Topology& topology, const Strategy& strategy,
                                                const ConfigureOptions& options) {
  return Compiler(topology, options).compile(strategy);
}

Result<GroupsInConflict> groups_in_conflict(const Topology& topology, const TrainingPhase& phase,
                                            Planner& planner, const RouteOptions& routing) {
  const ConfigureOptions options = {.routing = routing};
  return Compiler(topology, options).in_conflict(phase, planner);
}

std::string conflict_text(const Topology& topology, const TrainingPhase& phase,
                          const PhaseConflict& conflict) {
  std::vector<std::string> groups;
  for (const int32_t group : conflict.groups) {
    std::vector<std::string> names;
    for (const NodeId node : phase.rounds[at(conflict.round)][at(group)]) {
      names.push_back(topology.node(node).name);
    }
    groups.push_back(fmt::format("{} ({})", group, join(names, ",")));
  }
  const int32_t lanes = conflict.node.value < 0 ? topology.link(conflict.link).lanes : 0;
  const std::string what =
      conflict.node.value < 0
          ? fmt::format("link {} has {} lane{}: not one each for",
                        link_name(topology, conflict.link), lanes, lanes == 1 ? "" : "s")
          : fmt::format("switch {} cannot carry at once, level {}:",
                        topology.node(conflict.node).name, conflict.level);
  return fmt::format("{}, step {}: {} groups {}", phase.name, conflict.step, what,
                     fmt::join(groups, ", "));
}

}  // namespace pleach
