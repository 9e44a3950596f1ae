// FlowSets: sets of flows of one switch, by number: which of them it carries, and what becomes of
// them when flows come and go.
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
#include "pleach/fabric/switch_model.h"

namespace pleach {

// Flows may be in a set several times. Set 0 is empty. What was asked before costs a look into a
// table. Not thread safe.
class FlowSets {
 public:
  // What is, or would be, inside the switch.
  struct Load {
    int32_t held = 0;                           // the set of all that hold their ports
    std::map<int32_t, int32_t> alternate = {};  // sets of those that do not: how many, 0 too
    bool is_empty() const;
  };

  // Borrows the core.
  //   most_known  flows in the sets that it remembers, beyond those that were kept the last time
  FlowSets(const SwitchCore& core, int64_t most_known)
      : core_(&core), most_known_(most_known), limit_(most_known) {
    number({});
  }
  const SwitchCore& core() const { return *core_; }

  // One more or less is inside; one that alternates finds its way between the packets of others.
  void add(Load& load, int32_t set, bool alternates);
  void remove(Load& load, int32_t set, bool alternates);
  // Whether the switch carries a set; one more beside those inside. If not, `refused` is a set that
  // it does not carry.
  bool carries(int32_t set, int32_t& refused);
  bool carries(const Load& inside, int32_t set, bool alternates, int32_t& refused);

  bool are_too_many() const { return known_ > limit_; }
  // Forgets all sets but those for which each(keep) calls keep(set) or keep(load).
  class Keep;
  template <typename Each>
  void forget(Each each);

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
    return remembered(tables_.sums, left, right, [&] {
      std::vector<int32_t> both;
      std::ranges::merge(members(left), members(right), std::back_inserter(both));
      return both;
    });
  }
  // Without those of `part`, which is one.
  int32_t rest(int32_t whole, int32_t part) {
    return remembered(tables_.rests, whole, part, [&] {
      std::vector<int32_t> left;
      std::ranges::set_difference(members(whole), members(part), std::back_inserter(left));
      return left;
    });
  }
  // Flows of either, of both: each once.
  int32_t either(int32_t left, int32_t right) {
    std::vector<int32_t> either;
    std::ranges::set_union(members(left), members(right), std::back_inserter(either));
    return number(std::move(either));
  }
  int32_t common(int32_t left, int32_t right) {
    std::vector<int32_t> common;
    std::ranges::set_intersection(members(left), members(right), std::back_inserter(common));
    return number(std::move(common));
  }
  bool contains(int32_t whole, int32_t part) const {
    return std::ranges::includes(members(whole), members(part));
  }
  // Whether some flow is in both.
  bool meet(int32_t left, int32_t right) const {
    return std::ranges::find_first_of(members(left), members(right)) != members(left).end();
  }
  // Numbers of flows, ascending.
  const std::vector<int32_t>& members(int32_t set) const { return sets_[at(set)].members; }
  std::vector<PortFlow> flows(int32_t set) const {
    std::vector<PortFlow> flows;
    for (const int32_t flow : members(set)) {
      flows.push_back(flows_[at(flow)]);
    }
    return flows;
  }

  // Of `whole` those flows that share no port, on either side, with any of `part`; and `part`.
  int32_t beside(int32_t whole, int32_t part) {
    return remembered(tables_.besides, whole, part, [&] {
      std::vector<int32_t> beside = members(part);
      std::ranges::copy_if(members(whole), std::back_inserter(beside), [&](int32_t flow) {
        return std::ranges::none_of(members(part), [&](int32_t other) {
          return have_common(flows_[at(flow)].inputs, flows_[at(other)].inputs) ||
                 have_common(flows_[at(flow)].outputs, flows_[at(other)].outputs);
        });
      });
      std::ranges::sort(beside);
      return beside;
    });
  }

  // Of a set that is not carried: numbers of flows. Precondition: carries() was asked.
  const std::vector<int32_t>& conflict(int32_t set) const { return *sets_[at(set)].conflict; }
  // Notes that a set is inside; whether it never was before.
  bool note_inside(int32_t set) { return !std::exchange(sets_[at(set)].was_inside, true); }

 private:
  struct Set {
    std::vector<int32_t> members = {};                  // numbers of flows, ascending
    std::optional<std::vector<int32_t>> conflict = {};  // of those; none: not asked yet
    bool was_inside = false;
  };
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
      sets_.push_back({std::move(set)});
    }
    return known->second;
  }

  const SwitchCore* core_;
  int64_t most_known_, limit_;
  std::vector<PortFlow> flows_;
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, int32_t> flow_numbers_;
  std::vector<Set> sets_;
  std::map<std::vector<int32_t>, int32_t> numbers_;
  struct {
    Table sums, rests, besides;
  } tables_;
  int64_t known_ = 0;  // flows in all sets: what they take in memory
};

// Keeps what is called for: numbers it anew.
class FlowSets::Keep {
 public:
  void operator()(int32_t& set) const { set = kept_.number_of(all_.flows(set)); }
  void operator()(Load& load) const;

 private:
  friend class FlowSets;
  Keep(const FlowSets& all, FlowSets& kept) : all_(all), kept_(kept) {}

  const FlowSets& all_;
  FlowSets& kept_;
};

template <typename Each>
void FlowSets::forget(Each each) {
  FlowSets kept(*core_, most_known_);
  each(Keep(*this, kept));
  kept.limit_ += kept.known_;
  *this = std::move(kept);
}

}  // namespace pleach
