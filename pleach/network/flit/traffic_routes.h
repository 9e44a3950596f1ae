// TrafficRoutes: the ways of synthetic traffic, and the classes of VCs that keep them from
// deadlock.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/base/rng.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/topology/topology.h"

namespace pleach {

struct TrafficRouteOptions {
  int32_t vcs = 4;
  // On rings and tori two classes: which one a packet takes in a dimension, is fixed by whether its
  // way there passes between the last place and the first. false: one class.
  bool datelines = true;
  // Half way round an even ring either way is as short. true: drawn for each packet; false: minus,
  // as the topology's own routes go, which loads that direction more.
  bool draw_ties = true;
  bool allow_deadlock = false;  // where the classes do not suffice, go on without
};

// From every rank to every rank: dimension by dimension on grids, the first one first; else the
// topology's own routes, in layers of VCs (vc_layers.h).
class TrafficRoutes {
 public:
  // Borrows both.
  // Errors: kInvalidArgument: one VC on a grid with rings; off grids, more than 2048 ranks.
  // kInfeasible: too few VCs there, with the cycle of links that would wait for each other.
  static Result<TrafficRoutes> create(const Topology& topology, const TopologyFabric& fabric,
                                      const TrafficRouteOptions& options);

  int32_t classes() const { return classes_; }
  // hops_of() the way between two ranks. Valid until the next call.
  std::span<const uint16_t> between(int32_t source, int32_t target, Rng& rng) {
    return grid_.empty() ? from_table(source, target) : along_grid(source, target, rng);
  }

 private:
  struct Dimension {
    int32_t size = 1;
    int32_t stride = 1;
    bool is_ring = false;
  };
  struct Table {
    std::vector<uint32_t> first;  // by source · ranks + target, and one more
    std::vector<uint16_t> hops;
  };

  // Of every line of the grid in a dimension: what packets do at its routers one after the other,
  // twice round, so that a way along it is in one piece.
  struct Runs {
    std::vector<uint16_t> hops;
    std::size_t of_class = 0;     // how many there are of one class of VCs
    std::vector<uint32_t> first;  // by rank, dimension and direction (minus, plus): here it begins
    std::vector<int32_t> places;  // by rank and dimension
  };

  // Whether it is one; the ports by rank, dimension and direction (minus, plus).
  bool set_grid(const Topology& topology, const TopologyFabric& fabric,
                std::vector<uint16_t>& ports);
  Status set_table(const Topology& topology, const TopologyFabric& fabric,
                   const TrafficRouteOptions& options);
  void set_runs(const std::vector<uint16_t>& ports);
  void add_runs(const std::vector<uint16_t>& ports, int32_t rank, std::size_t i, int32_t vc_class);
  std::span<const uint16_t> along_grid(int32_t source, int32_t target, Rng& rng);
  std::span<const uint16_t> from_table(int32_t source, int32_t target) const;

  int32_t ranks_ = 0;
  int32_t classes_ = 1;
  bool draw_ties_ = true;
  std::vector<Dimension> grid_;
  Runs runs_;
  std::vector<uint16_t> ejection_;  // by rank
  Table table_;
  std::vector<uint16_t> hops_;  // of the last call
};

}  // namespace pleach
