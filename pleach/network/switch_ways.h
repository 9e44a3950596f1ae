// SwitchWay: what a stream asks of the switches on its way, and the lanes that it may take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// By wide link of a way, ascending: which of its lanes.
using Lanes = std::vector<int32_t>;

// A stream through switches that do not carry whatever enters. Of a link of several lanes, a *wide*
// one, it is on one, the same at both ends.
class SwitchWay {
 public:
  struct Stop {
    std::size_t at_switch = 0;       // place in SwitchCores::nodes()
    std::vector<SwitchPass> passes;  // of that switch
    std::vector<int32_t> wide;       // wide links that it has a port of, ascending
  };

  SwitchWay(const Topology& topology, const SwitchCores& cores,
            const LoweredConnection& connection);
  // Of a stream that makes these passes: it holds its ports, whatever it is made of.
  SwitchWay(const Topology& topology, const SwitchCores& cores, std::span<const SwitchPass> passes);

  // The fewest wide links first, of equals by switch.
  std::span<const Stop> stops() const { return stops_; }
  int32_t wide_count() const { return count_of(wide_); }
  std::span<const LinkId> wide_links() const { return wide_; }
  int32_t lane_count(int32_t wide) const { return lane_counts_[at(wide)]; }
  // Of those, the lanes that no dead part of either end cuts off.
  int32_t live_count(int32_t wide) const {
    return live_lanes_.empty() ? lane_count(wide) : count_of(live_lanes_[at(wide)]);
  }
  std::span<const LinkId> narrow_links() const { return narrow_; }  // the others, ascending
  // Equal for ways that ask the same of switches, on the same lanes.
  std::vector<int32_t> signature() const;
  // The same lane of all of them; of a link that has no such lane, that many further on, and round.
  Lanes aligned(int32_t lane) const;
  int32_t most_lanes() const;
  // Whether it is made of packets that find their way one by one: of a unicast, or from or to an
  // I/O node.
  bool alternates() const { return alternates_; }
  // What it asks of a stop. Of a link whose lane is kNoLane, nothing: flows are without it, or left
  // out where it is all that they come by, or leave by.
  static constexpr int32_t kNoLane = -1;
  std::vector<PortFlow> flows(const SwitchCores& cores, std::size_t stop, const Lanes& lanes) const;

  struct Question {
    // Whether a stop fits, on these lanes of its own wide links. Of those some may be kNoLane where
    // a switch has dead parts: lanes are then chosen link by link.
    std::function<bool(std::size_t stop, const Lanes& lanes)> fits;
    // Whether all of it does, where every stop fits; empty: yes.
    std::function<bool(const Lanes& lanes)> whole = {};
    // Whether some lane of a wide link looks taken: it is tried after the others, or not at all.
    // Empty: none does.
    std::function<bool(int32_t wide, int32_t lane)> is_taken = {};
    bool may_share = true;
    bool may_be_dead = false;  // lanes are tried that some end cuts off, which may not be asked
    // Where it is known that the lanes to start with do not do: the first stop that does not fit;
    // stops().size(): all do, but not the whole.
    std::optional<std::size_t> start_refused_at = {};
    int32_t most_tries = 256;  // stops asked; at least twice as many as lanes of a way want
    int32_t most_whole = 16;
  };
  // Lanes that fit, stop by stop and then as a whole, each link's tried from its lane in `start`
  // on. None: there are none, or more would have to be asked than the question allows.
  std::optional<Lanes> find(const Lanes& start, const Question& question) const;

 private:
  std::vector<LinkId> wide_, narrow_;
  std::vector<int32_t> lane_counts_;  // of wide links
  // By wide link, where some switch has dead parts, else empty: lanes that neither end cuts off.
  std::vector<Lanes> live_lanes_;
  std::vector<Stop> stops_;
  bool alternates_ = false;
};

}  // namespace pleach
