// RouteSpreader: shortest routes for many transfers at once, balanced over the links.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/base/rng.h"
#include "pleach/topology/routes.h"
#include "pleach/topology/topology.h"

namespace pleach {

// What has to go from one node to another by one way, in any unit of length.
struct Demand {
  NodeId source;
  NodeId target;
  int64_t load = 0;  // > 0
  bool operator==(const Demand&) const = default;
};

// What a link carries anyway.
struct LinkLoad {
  LinkId link;
  int64_t load = 0;
  bool operator==(const LinkLoad&) const = default;
};

// Chooses among all shortest routes of each demand so that the busiest links have little to do:
// first the largest demands, each where it adds least to the sum of bandwidth·(load/bandwidth)^4
// over the links; then, while the busiest link is one that some demand could avoid, again and again
// one to four demands anew, ties at random, where that sum does not grow. Where that leaves a link
// busier than the first of each demand's shortest routes would, these are taken (of links of unlike
// bandwidth the sum may prefer many slow ones). Ties of the first round
// go to what earlier calls loaded least, then by the digits of the target's number (which gives the
// usual static routes of fat trees). Deterministic. Borrows the topology.
//   source  d-mod-k: Zahavi, Fat-trees routing and node ordering, 2010. The sum is the potential of
//           a congestion game, which falls with every demand's best response (Rosenthal 1973).
class RouteSpreader {
 public:
  // `group_of_link`: links of one number always carry the same, translates of one another; empty:
  // each link is its own group.
  RouteSpreader(const Topology& topology, std::vector<int32_t> group_of_link);

  // A route for each demand, besides what links carry anyway. Earlier calls count as other times.
  //   demands  between existing nodes; several of one pair may go several ways
  //   errors   kInfeasible: a pair has no route (names it)
  //   cost     a few looks at every link on any shortest route of every demand
  Result<std::vector<std::vector<LinkId>>> spread(std::span<const Demand> demands,
                                                  std::span<const LinkLoad> fixed);

 private:
  // Of a group of links: what goes over each now, and went over it in all calls so far.
  struct Load {
    double width = 1;      // bandwidth of one of its links over that of the widest
    double per_width = 1;  // the inverse
    double now = 0;
    double before = 0;
    double forced = 0;        // the part of `now` that no choice of routes takes away
    bool is_touched = false;  // in touched_
  };
  struct Cost {
    double now = 0;
    double before = 0;
    auto operator<=>(const Cost&) const = default;
  };
  // A link on a shortest route, and the place of its target among the nodes looked at.
  struct Arc {
    LinkId link;
    int32_t next = 0;
  };
  // The nodes on shortest routes of one demand, nearer ones later, each with its arcs.
  struct Routes {
    std::vector<NodeId> nodes;
    std::vector<std::size_t> first_arc;  // by place; one more than nodes
    std::vector<Arc> arcs;
    std::vector<Cost> cost;      // by place: of the cheapest way to the target
    std::vector<int32_t> layer;  // by place: links from the source on
  };

  Cost cost_of(LinkId link, double load) const;
  void add(std::span<const LinkId> route, double load);
  static double potential(const Load& load);
  void look_at_neighbours(const Demand& demand);
  Status look(const Demand& demand);
  void count_forced(double load);
  bool is_optimal() const;
  std::vector<LinkId> cheapest(double load, uint64_t digits);
  // Whether any demand has a choice.
  Result<bool> place_all(std::span<const Demand> demands, double unit,
                         std::vector<std::vector<LinkId>>& routes);
  Status improve(std::span<const Demand> demands, double unit,
                 std::vector<std::vector<LinkId>>& routes);
  double busiest() const;  // load over width of the busiest link
  Status keep_first_if_better(std::span<const Demand> demands, double unit,
                              std::vector<std::vector<LinkId>>& routes);
  Status place_anew(std::span<const std::size_t> block, std::span<const Demand> demands,
                    double unit, Rng& rng, std::vector<std::vector<LinkId>>& routes);

  const Topology& topology_;
  Router router_;
  std::vector<int32_t> group_of_link_;
  std::vector<Load> loads_;        // by group
  std::vector<LinkId> touched_;    // in whose groups `now` may be other than 0
  std::vector<int32_t> place_of_;  // by node, in found_; -1: none
  Routes found_;                   // of the demand last looked at
  int64_t work_ = 0;               // arcs looked at in this call
  double sum_ = 0;                 // of all potentials
};

}  // namespace pleach
