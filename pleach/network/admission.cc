#include "pleach/network/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "pleach/base/index.h"

namespace pleach {

Admission::Admission(const Topology& topology, SwitchCores::MakeSwitch make, int64_t most_known)
    : topology_(topology), cores_(topology, make), most_known_(most_known) {
  for (const NodeId node : cores_.nodes()) {
    Switch& one = switches_.emplace_back();
    one.node = node;
    one.core = cores_.of(node);
    one.most_known = most_known;
  }
}

std::map<std::size_t, std::vector<PortFlow>> Admission::flows_of(
    const LoweredConnection& connection) const {
  const std::vector<SwitchPass> passes =
      connection.passes.empty() ? switch_passes(topology_, connection.links) : connection.passes;
  std::map<std::size_t, std::vector<PortFlow>> flows;
  for (const SwitchPass& pass : passes) {
    if (cores_.of(pass.node) != nullptr) {
      const auto place = std::ranges::lower_bound(cores_.nodes(), pass.node);
      flows[at(place - cores_.nodes().begin())].push_back(cores_.flow_of(pass));
    }
  }
  return flows;
}

Status Admission::check(const LoweredSchedule& schedule) const {
  if (admits_all()) {
    return ok();
  }
  for (const LoweredConnection& connection : schedule.connections()) {
    for (const auto& [at_switch, flows] : flows_of(connection)) {
      const Switch& one = switches_[at_switch];
      if (!one.core->conflict(flows).empty()) {
        return invalid(fmt::format("switch {} cannot carry a stream of the schedule by itself: {}",
                                   topology_.node(one.node).name, flows_text(flows)));
      }
    }
  }
  return ok();
}

void Admission::add(const LoweredConnection& connection) {
  if (admits_all()) {
    return;
  }
  std::vector<Stop>& stops = ways_.emplace_back().stops;
  for (const auto& [at_switch, flows] : flows_of(connection)) {
    stops.push_back({at_switch, switches_[at_switch].sets.number_of(flows)});
  }
}

bool Admission::carries(Switch& one, int32_t set) {
  FlowSets::Note& note = one.sets.note(set);
  if (!note.conflict.has_value()) {
    note.conflict.emplace();
    const std::vector<int32_t>& members = one.sets.members(set);
    for (const int32_t index : one.core->conflict(one.sets.flows(set))) {
      note.conflict->push_back(members[at(index)]);
    }
  }
  return note.conflict->empty();
}

int32_t Admission::first_before(const Switch& one, int32_t connection, const Turn& turn) const {
  for (const auto& [other_turn, other] : one.waiting) {
    if (other != connection) {
      return other_turn < turn ? other : -1;
    }
  }
  return -1;
}

bool Admission::fits(const Stop& stop, int32_t connection, const Turn& turn) {
  Switch& one = switches_[stop.at_switch];
  refused_ = {stop.at_switch, one.sets.sum(one.now, stop.flows), -1};
  if (!carries(one, refused_.set)) {
    return false;
  }
  refused_.first = first_before(one, connection, turn);
  if (refused_.first < 0) {
    return true;
  }
  const auto place =
      std::ranges::find(ways_[at(refused_.first)].stops, stop.at_switch, &Stop::at_switch);
  int32_t expected = one.sets.sum(place->flows, stop.flows);
  for (const Inside& other : one.inside) {
    if (other.guest_of == refused_.first) {
      expected = one.sets.sum(expected, other.flows);
    }
  }
  return carries(one, expected);
}

void Admission::stop_waiting(int32_t connection) {
  Way& way = ways_[at(connection)];
  if (way.waits.has_value()) {
    for (const Stop& stop : way.stops) {
      std::erase(switches_[stop.at_switch].waiting, std::pair(*way.waits, connection));
    }
    way.waits.reset();
  }
}

// Of the switch's sets all but those that something is made of.
void Admission::forget(std::size_t at_switch) {
  Switch& one = switches_[at_switch];
  FlowSets kept;
  for (Way& way : ways_) {
    for (Stop& stop : way.stops) {
      if (stop.at_switch == at_switch) {
        stop.flows = kept.number_of(one.sets.flows(stop.flows));
      }
    }
  }
  for (Inside& inside : one.inside) {
    inside.flows = kept.number_of(one.sets.flows(inside.flows));
  }
  one.now = kept.number_of(one.sets.flows(one.now));
  one.sets = std::move(kept);
  one.most_known = most_known_ + one.sets.known();
}

bool Admission::enter(int32_t connection, const Turn& turn) {
  if (admits_all()) {
    return true;
  }
  Way& way = ways_[at(connection)];
  for (const Stop& stop : way.stops) {
    if (const Switch& one = switches_[stop.at_switch]; one.sets.known() > one.most_known) {
      forget(stop.at_switch);
    }
  }
  const auto is_refused = [&](const Stop& stop) { return !fits(stop, connection, turn); };
  if (std::ranges::any_of(way.stops, is_refused)) {
    if (way.waits != turn) {
      stop_waiting(connection);
      for (const Stop& stop : way.stops) {
        auto& waiting = switches_[stop.at_switch].waiting;
        const std::pair self(turn, connection);
        waiting.insert(std::ranges::upper_bound(waiting, self), self);
      }
      way.waits = turn;
    }
    return false;
  }
  stop_waiting(connection);
  for (const Stop& stop : way.stops) {
    Switch& one = switches_[stop.at_switch];
    one.inside.push_back({connection, stop.flows, first_before(one, connection, turn)});
    one.now = one.sets.sum(one.now, stop.flows);
    bool& was_inside = one.sets.note(one.now).was_inside;
    configurations_ += was_inside ? 0 : 1;
    was_inside = true;
  }
  return true;
}

Admission::Refusal Admission::last_refusal() const {
  const Switch& one = switches_[refused_.at_switch];
  Refusal refusal{one.node, {}};
  if (refused_.first >= 0) {
    refusal.in_the_way.push_back(refused_.first);
    return refusal;
  }
  const std::vector<int32_t>& conflict = *one.sets.note(refused_.set).conflict;
  for (const Inside& other : one.inside) {
    const std::vector<int32_t>& flows = one.sets.members(other.flows);
    if (std::ranges::find_first_of(flows, conflict) != flows.end()) {
      refusal.in_the_way.push_back(other.connection);
    }
  }
  return refusal;
}

void Admission::leave(int32_t connection, std::vector<int32_t>& woken) {
  if (admits_all()) {
    return;
  }
  for (const Stop& stop : ways_[at(connection)].stops) {
    Switch& one = switches_[stop.at_switch];
    one.now = one.sets.rest(one.now, stop.flows);
    one.inside.erase(std::ranges::find(one.inside, connection, &Inside::connection));
    for (const auto& [turn, other] : one.waiting) {
      woken.push_back(other);
    }
  }
}

}  // namespace pleach
