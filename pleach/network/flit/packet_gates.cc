#include "pleach/network/flit/packet_gates.h"

#include <algorithm>

#include "pleach/base/check.h"

namespace pleach {

void PacketGates::add(int32_t gate, int32_t stream, const SwitchCore& core, bool alternates) {
  const auto [known, is_new] = numbers_.try_emplace(&core, switches_.size());
  if (is_new) {
    switches_.push_back({FlowSets(core, most_known_)});
  }
  gates_.resize(std::max(gates_.size(), at(gate) + 1));
  gates_[at(gate)] = {.stream = stream, .at_switch = known->second, .alternates = alternates};
}

void PacketGates::enter(std::span<const int32_t> gates, std::span<const PortFlow> flows,
                        int32_t traffic_class) {
  const Turn turn{traffic_class, entries_++};
  for (std::size_t i = 0; i < gates.size(); ++i) {
    Gate& gate = gates_[at(gates[i])];
    Switch& one = switches_[gate.at_switch];
    if (one.sets.are_too_many()) {
      forget(gate.at_switch);
    }
    gate.waits.push_back({turn, one.sets.number_of({flows[i]})});
    Load& after = one.waiting[{turn, gates[i]}];
    if (!one.classes.empty() && one.classes.rbegin()->first > traffic_class) {
      for (const int32_t other : one.passing) {
        if (gates_[at(other)].moves->turn > turn) {
          change(one, after, gates_[at(other)], 1);
        }
      }
    }
  }
  for (const int32_t gate : gates) {
    open(gates_[at(gate)].at_switch);
  }
}

void PacketGates::end(int32_t number, int64_t packet) {
  Gate& gate = gates_[at(number)];
  Entry& last = gate.waits.empty() ? *gate.moves : gate.waits.back();
  PLEACH_CHECK(last.end == kNoEnd, "an entry ends twice");
  last.end = packet;
  if (gate.waits.empty()) {
    switches_[gate.at_switch].ended.push_back(number);
    changed_.push_back(number);
  }
}

void PacketGates::passed(int32_t number) {
  const std::size_t at_switch = gates_[at(number)].at_switch;
  stop(switches_[at_switch], number);
  open(at_switch);
}

void PacketGates::withdraw(std::span<const int32_t> gates) {
  for (const int32_t number : gates) {
    Gate& gate = gates_[at(number)];
    Switch& one = switches_[gate.at_switch];
    for (const Entry& entry : gate.waits) {
      one.waiting.erase({entry.turn, number});
    }
    gate.waits.clear();
    if (gate.moves.has_value()) {
      stop(one, number);
    }
  }
  for (const int32_t number : gates) {
    open(gates_[at(number)].at_switch);
  }
}

// Beside what is passing. Who is inside all its switches is carried beside the others there, and
// needs no question.
bool PacketGates::is_carried(Switch& one, const Gate& gate, int32_t& refused) {
  const Entry& entry = gate.waits.front();
  if (gate.moves.has_value()) {
    return gate.moves->set == entry.set;  // else it is still passing on other lanes
  }
  if (one_class_ && !one.classes.empty() &&
      (one.classes.size() > 1 || one.classes.begin()->first != entry.turn.traffic_class)) {
    refused = kOtherClasses;
    return false;
  }
  return (one.ended.empty() && entry.end == kNoEnd) ||
         one.sets.carries(one.now, entry.set, gate.alternates, refused);
}

// To those that wait before it.
bool PacketGates::leaves_room(Switch& one, Waiting::const_iterator waiting) {
  const auto& [turn, number] = waiting->first;
  const Gate& gate = gates_[at(number)];
  for (auto other = one.waiting.begin(); other->first.first < turn; ++other) {
    const Gate& before = gates_[at(other->first.second)];
    if (one_class_ && other->first.first.traffic_class != turn.traffic_class) {
      return false;
    }
    Load after = other->second;
    const bool is_after = gate.moves.has_value() && gate.moves->turn > other->first.first;
    if (!is_after) {
      one.sets.add(after, gate.waits.front().set, gate.alternates);
    }
    int32_t refused = kNobody;
    const auto entry = std::ranges::find(before.waits, other->first.first, &Entry::turn);
    if (!one.sets.carries(after, entry->set, before.alternates, refused)) {
      return false;
    }
  }
  return true;
}

void PacketGates::note_in_the_way(const Switch& one, const Turn& turn, int32_t refused) {
  if (refused == kNobody) {
    return;
  }
  for (const int32_t number : one.ended) {
    const Gate& gate = gates_[at(number)];
    const std::vector<int32_t>& flow = one.sets.members(gate.moves->set);
    const bool is_refused =
        refused == kOtherClasses ||
        std::ranges::find_first_of(flow, one.sets.conflict(refused)) != flow.end();
    const Turn& other = gate.moves->turn;
    if (is_refused && other.traffic_class > turn.traffic_class && other.entry < turn.entry) {
      in_the_way_.push_back(gate.stream);
    }
  }
}

// Those of one entry do not wait for each other.
void PacketGates::open(std::size_t at_switch) {
  Switch& one = switches_[at_switch];
  for (auto next = one.waiting.begin(); next != one.waiting.end();) {
    const auto [turn, number] = next->first;
    const Gate& gate = gates_[at(number)];
    int32_t refused = kNobody;
    const bool is_first = gate.waits.front().turn == turn;
    if (is_first && is_carried(one, gate, refused) && leaves_room(one, next)) {
      next = one.waiting.erase(next);
      begin(one, number);
    } else {
      note_in_the_way(one, turn, refused);
      ++next;
    }
  }
}

void PacketGates::pass(Switch& one, const Gate& gate, int32_t by) {
  if (const auto [its, is_new] = one.classes.try_emplace(gate.moves->turn.traffic_class);
      (its->second += by) == 0) {
    one.classes.erase(its);
  }
  change(one, one.now, gate, by);
  for (auto& [waiting, after] : one.waiting) {
    if (gate.moves->turn <= waiting.first) {
      return;
    }
    change(one, after, gate, by);
  }
}

void PacketGates::change(Switch& one, Load& load, const Gate& gate, int32_t by) {
  if (by > 0) {
    one.sets.add(load, gate.moves->set, gate.alternates);
  } else {
    one.sets.remove(load, gate.moves->set, gate.alternates);
  }
}

void PacketGates::begin(Switch& one, int32_t number) {
  Gate& gate = gates_[at(number)];
  const Entry entry = gate.waits.front();
  gate.waits.erase(gate.waits.begin());
  if (gate.moves.has_value()) {
    stop(one, number);
  }
  gate.moves = entry;
  one.passing.insert(number);
  pass(one, gate, 1);
  if (entry.end != kNoEnd) {
    one.ended.push_back(number);
  }
  changed_.push_back(number);
}

void PacketGates::stop(Switch& one, int32_t number) {
  Gate& gate = gates_[at(number)];
  one.passing.erase(number);
  pass(one, gate, -1);
  std::erase(one.ended, number);
  gate.moves.reset();
  changed_.push_back(number);
}

// Of the switch's sets all but those that something is made of.
void PacketGates::forget(std::size_t at_switch) {
  Switch& one = switches_[at_switch];
  one.sets.forget([&](const FlowSets::Keep& keep) {
    for (Gate& gate : gates_) {
      if (gate.at_switch == at_switch && gate.moves.has_value()) {
        keep(gate.moves->set);
      }
      for (Entry& entry : gate.waits) {
        if (gate.at_switch == at_switch) {
          keep(entry.set);
        }
      }
    }
    keep(one.now);
    for (auto& [waiting, after] : one.waiting) {
      keep(after);
    }
  });
}

}  // namespace pleach
