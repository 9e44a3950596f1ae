// FlowSets: sets of flows of one switch, by number, and what becomes of them when flows come and
// go.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/fabric/port_flow.h"

namespace pleach {

// Flows may be in a set several times. Set 0 is empty. What was asked before costs a look into a
// table.
class FlowSets {
 public:
  FlowSets() { number({}); }

  // A set of these flows.
  int32_t number_of(const std::vector<PortFlow>& flows) {
    std::vector<int32_t> set;
    for (const PortFlow& flow : flows) {
      const auto [known, is_new] =
          flow_numbers_.try_emplace({flow.inputs, flow.outputs}, count_of(flows_));
      if (is_new) {
        flows_.push_back(flow);
      }
      set.push_back(known->second);
    }
    std::ranges::sort(set);
    return number(std::move(set));
  }
  // Both together.
  int32_t sum(int32_t left, int32_t right) {
    return remembered(sums_, left, right, [&] {
      std::vector<int32_t> both;
      std::ranges::merge(sets_[at(left)], sets_[at(right)], std::back_inserter(both));
      return both;
    });
  }
  // Without those of `part`, which is one.
  int32_t rest(int32_t whole, int32_t part) {
    return remembered(rests_, whole, part, [&] {
      std::vector<int32_t> left;
      std::ranges::set_difference(sets_[at(whole)], sets_[at(part)], std::back_inserter(left));
      return left;
    });
  }
  // Flows of either, of both: each once.
  int32_t either(int32_t left, int32_t right) {
    std::vector<int32_t> either;
    std::ranges::set_union(sets_[at(left)], sets_[at(right)], std::back_inserter(either));
    return number(std::move(either));
  }
  int32_t common(int32_t left, int32_t right) {
    std::vector<int32_t> common;
    std::ranges::set_intersection(sets_[at(left)], sets_[at(right)], std::back_inserter(common));
    return number(std::move(common));
  }
  bool contains(int32_t whole, int32_t part) const {
    return std::ranges::includes(sets_[at(whole)], sets_[at(part)]);
  }
  // Numbers of flows, ascending.
  const std::vector<int32_t>& members(int32_t set) const { return sets_[at(set)]; }
  std::vector<PortFlow> flows(int32_t set) const {
    std::vector<PortFlow> flows;
    for (const int32_t flow : sets_[at(set)]) {
      flows.push_back(flows_[at(flow)]);
    }
    return flows;
  }

  // Of `whole` those flows that share no port, on either side, with any of `part`; and `part`.
  int32_t beside(int32_t whole, int32_t part) {
    return remembered(besides_, whole, part, [&] {
      std::vector<int32_t> beside = sets_[at(part)];
      std::ranges::copy_if(sets_[at(whole)], std::back_inserter(beside), [&](int32_t flow) {
        return std::ranges::none_of(sets_[at(part)], [&](int32_t other) {
          return have_common(flows_[at(flow)].inputs, flows_[at(other)].inputs) ||
                 have_common(flows_[at(flow)].outputs, flows_[at(other)].outputs);
        });
      });
      std::ranges::sort(beside);
      return beside;
    });
  }

  // Flows in all sets that are known: what they take in memory.
  int64_t known() const { return known_; }

  // What is remembered of a set.
  struct Note {
    std::optional<std::vector<int32_t>> conflict;  // numbers of flows; none: not asked yet
    bool was_inside = false;
  };
  Note& note(int32_t set) { return notes_[at(set)]; }
  const Note& note(int32_t set) const { return notes_[at(set)]; }

 private:
  using Table = std::unordered_map<uint64_t, int32_t>;

  template <typename Make>
  int32_t remembered(Table& table, int32_t left, int32_t right, Make make) {
    const uint64_t key = uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    if (const auto known = table.find(key); known != table.end()) {
      return known->second;
    }
    return table.emplace(key, number(make())).first->second;
  }
  static bool have_common(const std::vector<int32_t>& left, const std::vector<int32_t>& right) {
    return std::ranges::any_of(
        left, [&](int32_t port) { return std::ranges::binary_search(right, port); });
  }
  int32_t number(std::vector<int32_t> set) {
    const auto [known, is_new] = numbers_.try_emplace(set, count_of(sets_));
    if (is_new) {
      known_ += count_of(set);
      sets_.push_back(std::move(set));
      notes_.emplace_back();
    }
    return known->second;
  }

  std::vector<PortFlow> flows_;
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, int32_t> flow_numbers_;
  std::vector<std::vector<int32_t>> sets_;
  std::vector<Note> notes_;  // by set
  std::map<std::vector<int32_t>, int32_t> numbers_;
  Table sums_, rests_, besides_;
  int64_t known_ = 0;
};

}  // namespace pleach
