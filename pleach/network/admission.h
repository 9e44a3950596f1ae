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
#include "pleach/network/joint_lanes.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/session.h"
#include "pleach/network/switch_ways.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Streams enter all switches on their way at once, or none and wait. Flows that are inside a switch
// hold their ports; but a stream that alternates (SwitchWay) sends packets between those of others
// with which it shares a port, and has to route beside the rest alone. In what order streams may
// enter:
//   * who is in the way of nobody inside enters, but
//   * a stream that waits at a switch as the first in turn is not overtaken there by later ones
//     that would keep it out: there are lanes, its *promise*, on which each of its switches carries
//     it with all those together that came after it, while it was the first, and are inside.
// Where a switch has one phase inside at a time (AdmissionRule::kPhase), all of this holds among
// the streams of a class. Those of a lower class enter beside them, and suspend them meanwhile;
// those of a higher one wait. So whoever waits enters once all those before it in turn, and those
// who were inside when it became the first, have left (docs/architecture.md). Where all switches
// carry whatever enters this costs nothing. Not thread safe.
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
    int32_t set = 0;                  // of flows, that it does not carry; 0: that is not why
  };

  // Precondition: check_switches(topology). Borrows it.
  //   most_known  flows in the sets that a switch remembers, beyond those of its connections
  explicit Admission(const Topology& topology, AdmissionRule rule = AdmissionRule::kTogether,
                     SwitchCores::MakeSwitch make = make_switch,
                     int64_t most_known = int64_t{1} << 23);

  // From now on streams that are inside may move to other lanes, where that lets another one in.
  void let_move() { lanes_.may_move = true; }
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
  // SwitchCore::conflict_level() of it.
  std::optional<int32_t> level_of(const Refusal& refusal) const;
  // Leaves; appends to `woken` the connections that wait at any of its switches.
  void leave(int32_t connection, std::vector<int32_t>& woken);
  // For one that has just entered, or goes on: when all switches on its way are configured for it,
  // of which those that are not change from now on. A switch is configured for flows that held
  // ports, as far as it carries them together; what holds none asks for nothing.
  struct Configured {
    int64_t time_ps = 0;
    bool changes = false;  // some switch does, for it
  };
  Configured configure(int32_t connection, int64_t now_ps, int64_t reconfiguration_ps);
  // Those inside that have been suspended since this was last asked, or go on again; by number.
  std::vector<int32_t> take_paced() { return std::exchange(suspended_.changed, {}); }
  bool is_suspended(int32_t connection) const { return ways_[at(connection)].is_suspended; }
  // The lane of a link that the connection is on inside, or was on last. Precondition: it has
  // entered, and not all is admitted; so for alternates().
  int32_t lane_of(int32_t connection, LinkId link) const;
  bool alternates(int32_t connection) const { return ways_[at(connection)].way.alternates(); }
  // Different sets of flows that held ports, of all switches; one that was forgotten counts anew.
  int64_t configurations() const { return configurations_; }
  // How often one did not enter though not all lanes of all that it would be with were tried.
  int64_t undecided() const { return lanes_.undecided; }

 private:
  struct Inside {
    int32_t connection = 0;
    int32_t flows = 0;      // a set
    int32_t guest_of = -1;  // the connection that was the first to wait, and before it in turn
    std::size_t stop = 0;   // of the connection
  };
  using Load = FlowSets::Load;
  struct Switch {
    NodeId node;
    FlowSets sets;
    std::map<int32_t, Load> now = {};  // by phase; of several those that are there
    int32_t configured = 0;            // a set
    std::vector<std::pair<int32_t, int64_t>> changes = {};  // for sets, until when
    std::vector<Inside> inside = {};
    std::vector<std::pair<Turn, int32_t>> waiting = {};  // connections, in turn
  };
  struct Way {
    SwitchWay way;
    std::vector<std::map<Lanes, int32_t>> sets;  // by stop: what is known, by lanes of its links
    std::vector<std::size_t> places;             // by stop, while inside: in Switch::inside
    Lanes promise;                  // on these it fits with all its guests, or was inside last
    std::vector<int32_t> promised;  // by stop: what is known of those; -1: nothing
    std::optional<Turn> waits = {};
    int32_t kind = 0;       // all that ask the same of switches have one
    int32_t phase = 0;      // in which it asked last
    LinkId barred_by = {};  // what is_barred() found last
    bool is_inside = false;
    bool is_suspended = false;
  };
  struct Refused {
    std::size_t at_switch = 0;
    std::vector<int32_t> sets;  // that are not carried there
    int32_t first = -1;         // who waits, if it is for it
    int32_t phase = 0;          // those of lower phases, if it is for them
    int32_t last_set = 0;       // the last that was found not to be carried, anywhere
  };
  struct Guest {  // of the first to wait at some stops
    int32_t connection = 0;
    const Lanes& lanes;
    const std::vector<std::size_t>& stops;
  };
  using Promises = std::map<int32_t, Lanes>;  // by connection
  // One that asks, and those inside whose lanes may change for it.
  struct Company {
    std::vector<std::pair<int32_t, int32_t>> streams;  // kind, connection; ascending
    std::vector<int32_t> others;                       // kinds of who has no lanes; ascending
    std::map<std::size_t, Load> loads;                 // by switch: of those
  };

  static void promise(Way& way, const Lanes& lanes);
  int32_t set_of(Way& way, std::size_t stop, const Lanes& lanes);
  // Whether a switch carries one more; what it does not is noted.
  bool carries(Switch& one, const Load& load, int32_t set, bool alternates) {
    return one.sets.carries(load, set, alternates, refused_.last_set);
  }
  bool fits(Way& way, std::size_t stop, const Lanes& lanes);
  // Whether those who wait first, before `turn`, would still fit; how, where they have to move.
  bool keeps_promises(int32_t connection, const Turn& turn, const Lanes& lanes, Promises& moved);
  bool keeps_promise(int32_t first, const Guest& entering, Promises& moved);
  bool fits_with_guests(int32_t first, std::size_t stop, const Lanes& promise,
                        const Guest& entering);
  std::optional<Lanes> choose(int32_t connection, const Turn& turn, Promises& moved);
  std::optional<Company> company_of(int32_t connection, const Turn& turn);
  bool join(Company& company, int32_t asking, const Inside& inside, Load& load);
  // Whether somebody of its phase is inside on one of its links of one lane: no lanes help it then.
  bool is_barred(Way& way);
  std::optional<Lanes> choose_together(int32_t connection, const Turn& turn);
  void move(int32_t connection, const Lanes& lanes);
  void count_configuration(Switch& one, const Load& now);
  int32_t& users(const Way& way, int32_t wide, int32_t lane);
  bool is_taken(const Way& way, const Lanes& lanes);
  void hold(const Way& way, int32_t change);
  void wait(int32_t connection, const Turn& turn);
  void stop_waiting(int32_t connection);
  void configure_alone(int32_t connection, int64_t now_ps, int64_t changed_ps, Configured& answer);
  void forget(std::size_t at_switch);
  void pace(const SwitchWay& way);
  int32_t phase_of(const Turn& turn) const {
    return rule_ == AdmissionRule::kPhase ? turn.traffic_class : 0;
  }
  // The first of its phase to wait at a switch, if it is before `turn`; -1: nobody is.
  int32_t first_before(const Switch& at, int32_t connection, const Turn& turn) const;

  const Topology& topology_;
  const SwitchCores cores_;
  const AdmissionRule rule_;
  std::vector<Switch> switches_;  // in the order of cores_.nodes()
  std::vector<Way> ways_;         // by connection
  struct {
    std::vector<std::vector<int32_t>> users;               // by link, by lane: streams that hold it
    std::map<int32_t, std::vector<int32_t>> narrow_users;  // by phase, by link
    JointLanes joint;
    bool may_move = false;
    bool are_some = false;  // some link has several
    std::map<std::vector<int32_t>, int32_t> kinds;
    std::vector<int32_t> moved;  // for the last that entered
    int64_t undecided = 0;
  } lanes_;
  Refused refused_;
  struct {
    int64_t count = 0;             // of those that are now
    std::vector<int32_t> changed;  // what take_paced() returns
  } suspended_;
  int64_t configurations_ = 0;
};

}  // namespace pleach
