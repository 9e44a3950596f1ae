// Admission: which streams are inside which switch, and who waits to enter.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/fabric/switch_cores.h"
#include "pleach/network/flow_sets.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Streams enter all switches on their way at once, or none and wait. In what order they may:
//   * who is in the way of nobody inside enters, but
//   * a stream that waits at a switch as the first in turn is not overtaken there by later ones
//     that would keep it out: together with those that came after it and are inside, and with it,
//     they must be such as the switch carries.
// So whoever waits enters once all those before it in turn, and those who were inside when it
// became the first, have left (docs/architecture.md). Where all switches carry whatever enters this
// costs nothing. Not thread safe.
class Admission {
 public:
  // The order of those that ask, smallest first: by class of traffic, then who has waited longest,
  // then by job and key.
  struct Turn {
    int32_t traffic_class = 0;
    int64_t asked_ps = 0;  // when the connection asked for the first time, for this entry
    int64_t start_ps = 0;  // of its job
    int32_t job = 0;
    Send send;
    auto operator<=>(const Turn&) const = default;
  };
  struct Refusal {
    NodeId node;                      // a switch
    std::vector<int32_t> in_the_way;  // inside it, or the first that waits there
  };

  // Precondition: check_switches(topology). Borrows it.
  //   most_known  flows in the sets that a switch remembers, beyond those of its connections
  explicit Admission(const Topology& topology, SwitchCores::MakeSwitch make = make_switch,
                     int64_t most_known = int64_t{1} << 23);

  // Whether it has nothing to say.
  bool admits_all() const { return switches_.empty(); }
  // Errors: kInvalidArgument: a connection that could not enter if nobody else were there.
  Status check(const LoweredSchedule& schedule) const;
  // The next connection, numbered from 0, has this way.
  void add(const LoweredConnection& connection);
  // A connection that is in no switch asks again or for the first time; it enters, or waits.
  bool enter(int32_t connection, const Turn& turn);
  // Why the last one that did not enter did not.
  Refusal last_refusal() const;
  // Leaves; appends to `woken` the connections that wait at any of its switches.
  void leave(int32_t connection, std::vector<int32_t>& woken);
  // Different sets of flows that were inside, of all switches; one that was forgotten counts anew.
  int64_t configurations() const { return configurations_; }

 private:
  struct Inside {
    int32_t connection = 0;
    int32_t flows = 0;      // a set
    int32_t guest_of = -1;  // the connection that was the first to wait, and before it in turn
  };
  struct Switch {
    NodeId node;
    const SwitchCore* core = nullptr;
    FlowSets sets;
    int32_t now = 0;  // the set of all that is inside
    int64_t most_known = 0;
    std::vector<Inside> inside;
    std::vector<std::pair<Turn, int32_t>> waiting;  // connections, in turn
  };
  struct Stop {  // of a connection at a switch
    std::size_t at_switch = 0;
    int32_t flows = 0;  // a set
  };
  struct Way {
    std::vector<Stop> stops;
    std::optional<Turn> waits;
  };
  struct Refused {
    std::size_t at_switch = 0;
    int32_t set = 0;     // that is not carried
    int32_t first = -1;  // who waits, if it is for it
  };

  // By switch, ascending: what the connection asks of it in all its passes.
  std::map<std::size_t, std::vector<PortFlow>> flows_of(const LoweredConnection& connection) const;
  bool carries(Switch& at, int32_t set);
  bool fits(const Stop& stop, int32_t connection, const Turn& turn);
  void stop_waiting(int32_t connection);
  void forget(std::size_t at_switch);
  // The first to wait at a switch, if it is before `turn`; -1: nobody is.
  int32_t first_before(const Switch& at, int32_t connection, const Turn& turn) const;

  const Topology& topology_;
  const SwitchCores cores_;
  const int64_t most_known_;
  std::vector<Switch> switches_;  // in the order of cores_.nodes()
  std::vector<Way> ways_;         // by connection
  Refused refused_;
  int64_t configurations_ = 0;
};

}  // namespace pleach
