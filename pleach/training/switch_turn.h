// SwitchTurn: streams that flow at once through switches of FRED's cells, each on lanes of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/fabric/fred_router.h"
#include "pleach/fabric/fred_switch.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/joint_lanes.h"
#include "pleach/network/switch_ways.h"
#include "pleach/topology/topology.h"
#include "pleach/training/phase_streams.h"

namespace pleach {

// The switches of a topology that have cells, numbered in the order of their nodes.
class CellSwitches {
 public:
  // Precondition: check_switches(topology). Borrows it, which outlives this.
  explicit CellSwitches(const Topology& topology);

  int32_t count() const { return count_of(cores_.nodes()); }
  NodeId node(int32_t number) const { return cores_.nodes()[at(number)]; }
  const FredSize& size(int32_t number) const { return *cores_.of(node(number))->cells(); }
  int32_t find(NodeId node) const;  // −1: it has no cells
  // What a stream asks of them: all of it holds its ports, unicasts too.
  SwitchWay way_of(const PhaseStream& stream) const;
  const SwitchCores& cores() const { return cores_; }

 private:
  const Topology& topology_;
  const SwitchCores cores_;
};

class SwitchTurn {
 public:
  // Why a stream does not join.
  struct Clash {
    NodeId node;  // the switch; none where a link is full
    LinkId link;  // all of whose lanes are taken
    int32_t level = 0;
    std::vector<int32_t> groups = {};  // ascending, with that of the stream
    bool proved = false;               // that they do not flow at once, whatever their lanes
    std::string dead = {};             // what of the switch is dead and has a part in it, in words
  };

  // Borrows both.
  SwitchTurn(const CellSwitches& switches, const RouteOptions& options)
      : switches_(&switches), options_(&options), flows_(at(switches.count())) {}

  // A stream joins those that are here, which stay on their lanes; or does not, and says why. Lanes
  // are tried from the lowest on (SwitchWay::find).
  std::optional<Clash> add(const PhaseStream& stream);
  // The same, but where those that are here are in the way they may take other lanes.
  std::optional<Clash> add_or_move(const PhaseStream& stream, JointLanes& joint);
  // Whether all may flow, each on the first lanes that are left: then they have joined.
  bool add_all(std::span<const PhaseStream> streams);
  // Whether they do on some lanes: then these and no others are here. None: not all were tried.
  std::optional<bool> put_together(std::vector<PhaseStream> streams, JointLanes& joint);

  // What is asked of a switch, in the order of inputs: so it routes, by the same options.
  std::vector<PortFlow> flows(int32_t number) const;
  std::set<int32_t> groups() const;

 private:
  struct Flow {
    PortFlow flow;
    int32_t group = 0;
  };

  // What is asked of a switch, and more: as flows() has it in order.
  FlowRouting route(int32_t number, std::span<const Flow> more) const;
  bool has_lanes(std::span<const PhaseStream> streams) const;  // to choose from
  bool is_taken(LinkId link, int32_t lane) const;
  // The lowest lanes that are left; none: a link is full.
  std::optional<Lanes> first_lanes(const SwitchWay& way, LinkId* full) const;
  std::vector<Flow> asked(const SwitchWay& way, std::size_t stop, const Lanes& lanes,
                          int32_t group) const;
  std::optional<Clash> clash_of(const PhaseStream& stream, const SwitchWay& way,
                                const Lanes& first) const;
  void take(const PhaseStream& stream, const SwitchWay& way, const Lanes& lanes);

  const CellSwitches* switches_;
  const RouteOptions* options_;
  std::vector<std::vector<Flow>> flows_;                         // by switch
  std::map<LinkId, std::map<int32_t, int32_t>> group_on_lanes_;  // of links that have been taken
  std::vector<PhaseStream> streams_;
};

}  // namespace pleach
