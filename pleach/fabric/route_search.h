// RouteSearch: whether flows route, by recursive conflict graphs and colouring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/level_colouring.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/fabric/subnetwork_kinds.h"

namespace pleach {

// At level k a flow is in one subnetwork, at the ports p >> k of its ports p, whichever subnetwork
// that is. So whether a set of flows routes inside a subnetwork of level k is a question of the set
// and of the subnetwork's kind alone, of k where no part is dead: what is learned about it at one
// place holds at all that are alike, and what a sound one refuses all of its level do. A set routes
// where its conflict graph (an edge: two flows share a cell) has a colouring with m colours, none
// of which is barred to a flow that has no way in its subnetwork, of which each routes at level
// k + 1. A colour that does not leaves behind a least set that does not, and such a set is never
// again of one colour: that is how a level refutes the one above.
class RouteSearch {
 public:
  struct Limits {
    int32_t levels = 0;     // that are looked at; what is below routes all
    bool goes_back = true;  // false: what a level below refuses is given up
  };
  // Borrows the flows and the budget.
  RouteSearch(const FredSize& size, std::span<const PortFlow> flows, const Limits& limits,
              SearchBudget& budget);

  enum class Outcome : uint8_t { kRouted, kRefused, kGaveUp };
  struct Answer {
    Outcome outcome = Outcome::kGaveUp;
    std::vector<int32_t> core = {};  // kRefused: flows that do not route, ascending
    bool is_least = false;           // none of the core can be left out
    bool holds_at_all = false;       // no subnetwork of the level routes the core
  };
  // Whether `flows`, ascending, route from the outermost level. Their choices() are then valid.
  Answer find(std::span<const int32_t> flows);
  // levels() numbers per flow: the subnetwork at each level.
  const std::vector<int32_t>& choices() const { return choices_; }
  // Leaves out of a refused core what can be left out.
  Answer least(std::vector<int32_t> core) { return least_at(kinds_.outermost(), std::move(core)); }

 private:
  using Set = std::vector<int32_t>;
  struct Core {
    Set flows;
    bool is_least = false;
  };
  struct Known {
    std::map<Set, std::vector<int32_t>> routed;  // with choices from its level on
    std::vector<Core> refused;
    std::vector<std::vector<int32_t>> refused_of;  // their numbers, by the first flow
  };

  std::vector<int32_t>::iterator choices_of(int32_t flow) {
    return choices_.begin() + std::ptrdiff_t{flow} * level_count_;
  }
  // In a subnetwork of `kind`, in which each of the flows has a way.
  Answer find_at(int32_t kind, const Set& flows);
  Answer search_at(int32_t kind, const Set& flows);
  Answer least_at(int32_t kind, Set core);
  // A sound subnetwork for each flow; none: there are not so many.
  std::optional<std::vector<int32_t>> apart(int32_t kind, std::size_t flows) const;
  bool knows(int32_t kind, const Set& flows, Answer& answer);
  const Core* known_refusal(int32_t kind, const Set& flows) const;
  void remember_refused(int32_t kind, const Answer& answer);
  void remember_routed(int32_t kind, const Set& flows);
  // Whether every colour of a colouring routes; if not, the positions of flows that do not.
  Answer route_colours(int32_t kind, const Set& flows, std::span<const int32_t> colours);
  ColouringProblem problem_at(int32_t kind, const Set& flows) const;
  void add_places(int32_t level, const Set& flows, ColouringProblem& problem) const;
  void add_bars(int32_t kind, const Set& flows, ColouringProblem& problem) const;

  const FredSize size_;
  const std::span<const PortFlow> flows_;
  const Limits limits_;
  SearchBudget& budget_;
  const int32_t level_count_;
  const SubnetworkKinds kinds_;
  std::vector<int32_t> choices_;
  std::vector<Known> known_;  // by kind
};

}  // namespace pleach
