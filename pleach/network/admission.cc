#include "pleach/network/admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/index.h"

namespace pleach {
namespace {

constexpr std::size_t kMostAnswers = 1 << 20;  // that a switch remembers

void append(std::vector<int32_t>& to, const std::vector<int32_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Admission::Admission(const Topology& topology, SwitchCores::MakeSwitch make)
    : topology_(topology), cores_(topology, make) {
  for (const NodeId node : cores_.nodes()) {
    Switch& one = switches_.emplace_back();
    one.node = node;
    one.core = cores_.of(node);
  }
}

std::vector<std::pair<std::size_t, PortFlow>> Admission::flows_of(
    const LoweredConnection& connection) const {
  const std::vector<SwitchPass> plain = connection.passes.empty()
                                            ? switch_passes(topology_, connection.links)
                                            : std::vector<SwitchPass>();
  std::vector<std::pair<std::size_t, PortFlow>> flows;
  for (const SwitchPass& pass : connection.passes.empty() ? plain : connection.passes) {
    if (cores_.of(pass.node) != nullptr) {
      const auto place = std::ranges::lower_bound(cores_.nodes(), pass.node);
      flows.emplace_back(place - cores_.nodes().begin(), cores_.flow_of(pass));
    }
  }
  std::ranges::stable_sort(flows, {}, [](const auto& flow) { return flow.first; });
  return flows;
}

Status Admission::check(const LoweredSchedule& schedule) const {
  if (admits_all()) {
    return ok();
  }
  for (const LoweredConnection& connection : schedule.connections()) {
    const auto flows = flows_of(connection);
    std::vector<PortFlow> together;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      together.push_back(flows[i].second);
      if (i + 1 < flows.size() && flows[i + 1].first == flows[i].first) {
        continue;
      }
      const Switch& one = switches_[flows[i].first];
      if (!one.core->conflict(together).empty()) {
        return invalid(fmt::format("switch {} cannot carry a stream of the schedule by itself: {}",
                                   topology_.node(one.node).name, flows_text(together)));
      }
      together.clear();
    }
  }
  return ok();
}

void Admission::add(const LoweredConnection& connection) {
  if (admits_all()) {
    return;
  }
  std::vector<Stop>& stops = ways_.emplace_back().stops;
  for (auto& [index, flow] : flows_of(connection)) {
    Switch& one = switches_[index];
    const auto [known, is_new] =
        one.numbers.try_emplace({flow.inputs, flow.outputs}, count_of(one.flows));
    if (is_new) {
      one.flows.push_back(std::move(flow));
    }
    if (stops.empty() || stops.back().at_switch != index) {
      stops.push_back({index, {}});
    }
    stops.back().flows.push_back(known->second);
  }
}

// Of flows by their numbers.
const Admission::FlowIds& Admission::conflict(Switch& one, FlowIds flows) {
  std::ranges::sort(flows);
  if (const auto known = one.answers.find(flows); known != one.answers.end()) {
    return known->second;
  }
  std::vector<PortFlow> asked;
  for (const int32_t flow : flows) {
    asked.push_back(one.flows[at(flow)]);
  }
  FlowIds in_the_way;
  for (const int32_t index : one.core->conflict(asked)) {
    in_the_way.push_back(flows[at(index)]);
  }
  if (one.answers.size() >= kMostAnswers) {
    one.answers.clear();
  }
  return one.answers.emplace(std::move(flows), std::move(in_the_way)).first->second;
}

int32_t Admission::first_before(const Switch& one, int32_t connection, const Turn& turn) const {
  for (const auto& [other_turn, other] : one.waiting) {
    if (other != connection) {
      return other_turn < turn ? other : -1;
    }
  }
  return -1;
}

std::optional<Admission::Refusal> Admission::refusal(const Stop& stop, int32_t connection,
                                                     const Turn& turn) {
  Switch& one = switches_[stop.at_switch];
  FlowIds flows = stop.flows;
  for (const Inside& other : one.inside) {
    append(flows, other.flows);
  }
  if (const FlowIds& found = conflict(one, std::move(flows)); !found.empty()) {
    Refusal refusal{one.node, {}};
    for (const Inside& other : one.inside) {
      if (std::ranges::find_first_of(other.flows, found) != other.flows.end()) {
        refusal.in_the_way.push_back(other.connection);
      }
    }
    return refusal;
  }
  const int32_t first = first_before(one, connection, turn);
  if (first < 0) {
    return std::nullopt;
  }
  flows = stop.flows;
  append(flows, std::ranges::find(ways_[at(first)].stops, stop.at_switch, &Stop::at_switch)->flows);
  for (const Inside& other : one.inside) {
    if (other.guest_of == first) {
      append(flows, other.flows);
    }
  }
  return conflict(one, std::move(flows)).empty() ? std::nullopt
                                                 : std::optional(Refusal{one.node, {first}});
}

std::optional<Admission::Refusal> Admission::enter(int32_t connection, const Turn& turn) {
  if (admits_all()) {
    return std::nullopt;
  }
  Way& way = ways_[at(connection)];
  if (way.waits.has_value()) {
    for (const Stop& stop : way.stops) {
      switches_[stop.at_switch].waiting.erase({*way.waits, connection});
    }
    way.waits.reset();
  }
  for (const Stop& stop : way.stops) {
    if (auto refused = refusal(stop, connection, turn)) {
      for (const Stop& waits_at : way.stops) {
        switches_[waits_at.at_switch].waiting.emplace(turn, connection);
      }
      way.waits = turn;
      return refused;
    }
  }
  for (const Stop& stop : way.stops) {
    Switch& one = switches_[stop.at_switch];
    one.inside.push_back({connection, stop.flows, first_before(one, connection, turn)});
    FlowIds flows;
    for (const Inside& other : one.inside) {
      append(flows, other.flows);
    }
    std::ranges::sort(flows);
    if (one.configurations.size() < kMostAnswers && one.configurations.insert(flows).second) {
      ++configurations_;
    }
  }
  return std::nullopt;
}

void Admission::leave(int32_t connection, std::vector<int32_t>& woken) {
  if (admits_all()) {
    return;
  }
  for (const Stop& stop : ways_[at(connection)].stops) {
    Switch& one = switches_[stop.at_switch];
    std::erase_if(one.inside, [&](const Inside& other) { return other.connection == connection; });
    for (const auto& [turn, other] : one.waiting) {
      woken.push_back(other);
    }
  }
}

}  // namespace pleach
