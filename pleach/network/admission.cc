#include "pleach/network/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/fabric/fred_faults.h"

namespace pleach {

namespace {

std::unique_ptr<SwitchCore> carry_all(const Topology& /*topology*/, NodeId /*node*/) {
  return nullptr;
}

// Stops that are asked for lanes of a stream by itself, at the most.
constexpr int32_t kMostAlone = 1 << 16;

// Lanes on which a stream is carried if nobody else is there, by all its stops or by one.
std::optional<Lanes> find_alone(const SwitchCores& cores, const SwitchWay& way,
                                std::optional<std::size_t> only = {}) {
  SwitchWay::Question question;
  question.fits = [&](std::size_t stop, const Lanes& lanes) {
    const SwitchCore* core = cores.of(way.stops()[stop].passes.front().node);
    return (only.has_value() && stop != *only) ||
           core->conflict(way.flows(cores, stop, lanes)).empty();
  };
  question.most_tries = only.has_value() ? kMostAlone / 16 : kMostAlone;
  question.may_be_dead = only.has_value();
  return way.find(Lanes(at(way.wide_count()), 0), question);
}

std::string dead_parts(const SwitchCore& core) {
  return core.cells() == nullptr ? "" : faults_text(*core.cells(), core.cells()->dead);
}

// Of a stream that find_alone() finds no lanes for: a switch that has none, or all with dead parts.
std::string why_not_alone(const Topology& topology, const SwitchCores& cores,
                          const SwitchWay& way) {
  std::vector<std::string> dead;
  std::optional<std::size_t> refusing;
  for (std::size_t stop = 0; stop < way.stops().size(); ++stop) {
    const NodeId node = way.stops()[stop].passes.front().node;
    const std::string parts = dead_parts(*cores.of(node));
    if (!refusing.has_value() && !find_alone(cores, way, stop)) {
      refusing = stop;
    }
    if (!parts.empty()) {
      dead.push_back(fmt::format("{} of {}", parts, topology.node(node).name));
    }
  }
  if (!refusing.has_value()) {
    return fmt::format("no lanes carry a stream of the schedule through all its switches{}{}",
                       dead.empty() ? "" : ": dead is ", fmt::join(dead, "; "));
  }
  const NodeId node = way.stops()[*refusing].passes.front().node;
  std::vector<std::string> parts;  // whose part it is on one lane, or another
  for (int32_t lane = 0; lane < way.most_lanes(); ++lane) {
    const auto flows = way.flows(cores, *refusing, way.aligned(lane));
    const std::string part = cores.of(node)->dead_in_the_way(flows);
    if (!part.empty() && std::ranges::find(parts, part) == parts.end()) {
      parts.push_back(part);
    }
  }
  return fmt::format("switch {} cannot carry a stream of the schedule by itself: {}{}{}{}",
                     topology.node(node).name,
                     flows_text(way.flows(cores, *refusing, way.aligned(0))),
                     way.stops()[*refusing].wide.empty() ? "" : ", on whichever lanes",
                     parts.empty() ? "" : ": dead is ", fmt::join(parts, ", "));
}

}  // namespace

Admission::Admission(const Topology& topology, AdmissionRule rule, SwitchCores::MakeSwitch make,
                     int64_t most_known)
    : topology_(topology),
      cores_(topology, rule == AdmissionRule::kFree ? carry_all : make),
      rule_(rule) {
  for (const NodeId node : cores_.nodes()) {
    switches_.push_back({.node = node, .sets = FlowSets(*cores_.of(node), most_known)});
  }
  for (const Link& link : topology.links()) {
    lanes_.users.emplace_back(at(link.lanes), 0);
  }
}

Status Admission::check(const LoweredSchedule& schedule) const {
  if (admits_all()) {
    return ok();
  }
  for (const LoweredConnection& connection : schedule.connections()) {
    if (const SwitchWay way(topology_, cores_, connection); !find_alone(cores_, way)) {
      return invalid(why_not_alone(topology_, cores_, way));
    }
  }
  return ok();
}

void Admission::add(const LoweredConnection& connection) {
  if (admits_all()) {
    return;
  }
  Way way{SwitchWay(topology_, cores_, connection), {}, {}, {}, {}};
  way.sets.resize(way.way.stops().size());
  way.places.resize(way.way.stops().size());
  const Lanes first(at(way.way.wide_count()), 0);
  SwitchWay::Question question;
  question.fits = [&](std::size_t stop, const Lanes& lanes) {
    Switch& one = switches_[way.way.stops()[stop].at_switch];
    return one.sets.carries(set_of(way, stop, lanes), refused_.last_set);
  };
  question.most_tries = kMostAlone;
  const auto alone = way.way.find(first, question);
  PLEACH_CHECK(alone, "check() found nothing");
  promise(way, *alone);
  lanes_.are_some = lanes_.are_some || way.way.wide_count() > 0;
  way.kind = lanes_.kinds.try_emplace(way.way.signature(), count_of(lanes_.kinds)).first->second;
  ways_.push_back(std::move(way));
}

int32_t Admission::set_of(Way& way, std::size_t stop, const Lanes& lanes) {
  const bool is_promise = &lanes == &way.promise;
  if (is_promise && way.promised[stop] >= 0) {
    return way.promised[stop];
  }
  const SwitchWay::Stop& place = way.way.stops()[stop];
  Lanes here;
  for (const int32_t link : place.wide) {
    here.push_back(lanes[at(link)]);
  }
  const auto [known, is_new] = way.sets[stop].try_emplace(std::move(here));
  if (is_new) {
    known->second = switches_[place.at_switch].sets.number_of(way.way.flows(cores_, stop, lanes));
  }
  if (is_promise) {
    way.promised[stop] = known->second;
  }
  return known->second;
}

void Admission::promise(Way& way, const Lanes& lanes) {
  if (way.promise != lanes || way.promised.empty()) {
    way.promise = lanes;
    way.promised.assign(way.sets.size(), -1);
  }
}

int32_t Admission::first_before(const Switch& one, int32_t connection, const Turn& turn) const {
  for (const auto& [other_turn, other] : one.waiting) {
    if (other != connection && phase_of(other_turn) == phase_of(turn)) {
      return other_turn < turn ? other : -1;
    }
  }
  return -1;
}

bool Admission::fits(Way& way, std::size_t stop, const Lanes& lanes) {
  const std::size_t at_switch = way.way.stops()[stop].at_switch;
  Switch& one = switches_[at_switch];
  if (!one.now.empty() && one.now.begin()->first < way.phase) {
    refused_ = {at_switch, {}, -1, way.phase, 0};
    return false;
  }
  const auto now = one.now.find(way.phase);
  static const Load kNone;
  if (carries(one, now == one.now.end() ? kNone : now->second, set_of(way, stop, lanes),
              way.way.alternates())) {
    return true;
  }
  const int32_t last_set = refused_.last_set;
  if (refused_.at_switch != at_switch || refused_.sets.empty()) {
    refused_ = {};
    refused_.at_switch = at_switch;
  }
  refused_.sets.push_back(last_set);
  return false;
}

// Of a stop of one that waits: its guests there, and whoever enters as one.
bool Admission::fits_with_guests(int32_t first, std::size_t stop, const Lanes& promise,
                                 const Guest& entering) {
  Way& waiting = ways_[at(first)];
  const std::size_t at_switch = waiting.way.stops()[stop].at_switch;
  Switch& one = switches_[at_switch];
  Load guests;
  for (const Inside& other : one.inside) {
    if (other.guest_of == first) {
      one.sets.add(guests, other.flows, ways_[at(other.connection)].way.alternates());
    }
  }
  Way& way = ways_[at(entering.connection)];
  for (const std::size_t its : entering.stops) {
    if (way.way.stops()[its].at_switch == at_switch) {
      one.sets.add(guests, set_of(way, its, entering.lanes), way.way.alternates());
    }
  }
  return carries(one, guests, set_of(waiting, stop, promise), waiting.way.alternates());
}

bool Admission::keeps_promise(int32_t first, const Guest& entering, Promises& moved) {
  const Way& waiting = ways_[at(first)];
  const auto is_met = [&](std::size_t stop) {
    return std::ranges::any_of(entering.stops, [&](std::size_t its) {
      return ways_[at(entering.connection)].way.stops()[its].at_switch ==
             waiting.way.stops()[stop].at_switch;
    });
  };
  // Where the two do not meet, the promise holds as before.
  bool holds = true;
  for (std::size_t stop = 0; stop < waiting.way.stops().size() && holds; ++stop) {
    holds = !is_met(stop) || fits_with_guests(first, stop, waiting.promise, entering);
  }
  if (holds || waiting.way.wide_count() == 0) {
    return holds;
  }
  auto found = waiting.way.find(waiting.promise, {[&](std::size_t stop, const Lanes& promise) {
                                  return fits_with_guests(first, stop, promise, entering);
                                }});
  if (found) {
    moved[first] = *std::move(found);
  }
  return found.has_value();
}

bool Admission::keeps_promises(int32_t connection, const Turn& turn, const Lanes& lanes,
                               Promises& moved) {
  moved.clear();
  const auto stops = ways_[at(connection)].way.stops();
  std::map<int32_t, std::vector<std::size_t>> stops_of;  // by who waits there first
  for (std::size_t stop = 0; stop < stops.size(); ++stop) {
    const int32_t first = first_before(switches_[stops[stop].at_switch], connection, turn);
    if (first >= 0) {
      stops_of[first].push_back(stop);
    }
  }
  for (const auto& [first, its] : stops_of) {
    if (!keeps_promise(first, {connection, lanes, its}, moved)) {
      refused_ = {stops[its.front()].at_switch, {}, first, 0, 0};
      return false;
    }
  }
  return true;
}

std::optional<Lanes> Admission::choose(int32_t connection, const Turn& turn, Promises& moved) {
  Way& way = ways_[at(connection)];
  std::size_t refused_at = 0;
  const auto fits_on = [&](const Lanes& lanes) {
    refused_at = 0;
    while (refused_at < way.way.stops().size() && fits(way, refused_at, lanes)) {
      ++refused_at;
    }
    return refused_at == way.way.stops().size() && keeps_promises(connection, turn, lanes, moved);
  };
  refused_ = {};
  if (fits_on(way.promise)) {
    return way.promise;
  }
  if (way.way.wide_count() == 0 || is_barred(way)) {
    return std::nullopt;
  }
  SwitchWay::Question question;
  question.start_refused_at = refused_at;
  // Streams that have the same lane everywhere seldom meet inside a switch.
  for (int32_t lane = 0; lane < way.way.most_lanes(); ++lane) {
    const Lanes lanes = way.way.aligned(lane);
    if (!is_taken(way, lanes) && fits_on(lanes)) {
      return lanes;
    }
  }
  question.fits = [&](std::size_t stop, const Lanes& lanes) { return fits(way, stop, lanes); };
  question.whole = [&](const Lanes& lanes) {
    return keeps_promises(connection, turn, lanes, moved);
  };
  question.is_taken = [&](int32_t wide, int32_t lane) { return users(way, wide, lane) > 0; };
  return way.way.find(way.promise, question);
}

bool Admission::is_barred(Way& way) {
  const auto users = lanes_.narrow_users.find(way.phase);
  if (way.way.alternates() || users == lanes_.narrow_users.end()) {
    return false;
  }
  const auto is_held = [&](LinkId link) { return users->second[link.index()] > 0; };
  if (way.barred_by.value < 0 || !is_held(way.barred_by)) {
    const auto narrow = way.way.narrow_links();
    const auto held = std::ranges::find_if(narrow, is_held);
    way.barred_by = held == narrow.end() ? LinkId{} : *held;
  }
  return way.barred_by.value >= 0;
}

// One that is inside a switch of the company's; false: nothing may change for who asks.
bool Admission::join(Company& company, int32_t asking, const Inside& inside, Load& load) {
  const Way& other = ways_[at(inside.connection)];
  if (other.way.wide_count() == 0) {
    company.others.push_back(other.kind);
    return true;
  }
  // A guest stays where whoever waits, or may ask again, has been promised to fit beside it.
  if (inside.guest_of >= 0 && inside.guest_of != asking && !ways_[at(inside.guest_of)].is_inside) {
    return false;
  }
  company.streams.emplace_back(other.kind, inside.connection);
  Switch& one = switches_[other.way.stops()[inside.stop].at_switch];
  one.sets.remove(load, inside.flows, other.way.alternates());
  return true;
}

// Of one that nobody before it in turn keeps outside: all at its switches, and at switches of those
// that have lanes there, and so on. None: no lanes of theirs let it enter.
std::optional<Admission::Company> Admission::company_of(int32_t connection, const Turn& turn) {
  const Way& asking = ways_[at(connection)];
  for (const SwitchWay::Stop& stop : asking.way.stops()) {
    const Switch& one = switches_[stop.at_switch];
    if (first_before(one, connection, turn) >= 0 ||
        (!one.now.empty() && one.now.begin()->first < asking.phase)) {
      return std::nullopt;
    }
  }
  Company company{{{asking.kind, connection}}, {}, {}};
  for (std::size_t next = 0; next < company.streams.size(); ++next) {
    for (const SwitchWay::Stop& stop : ways_[at(company.streams[next].second)].way.stops()) {
      const auto [load, is_new] = company.loads.try_emplace(stop.at_switch);
      Switch& one = switches_[stop.at_switch];
      const auto now = one.now.find(asking.phase);
      if (!is_new || now == one.now.end()) {
        continue;
      }
      load->second = now->second;
      for (const Inside& inside : one.inside) {
        if (ways_[at(inside.connection)].phase == asking.phase &&
            !join(company, connection, inside, load->second)) {
          return std::nullopt;
        }
      }
    }
  }
  std::ranges::sort(company.streams);
  company.streams.erase(std::unique(company.streams.begin(), company.streams.end()),
                        company.streams.end());
  std::ranges::sort(company.others);
  const bool has_lanes = asking.way.wide_count() > 0 || company.streams.size() > 1;
  return has_lanes ? std::optional(std::move(company)) : std::nullopt;
}

// Lanes for it beside those inside, which may have to change theirs; then they have.
std::optional<Lanes> Admission::choose_together(int32_t connection, const Turn& turn) {
  if (!lanes_.may_move || !lanes_.are_some || is_barred(ways_[at(connection)])) {
    return std::nullopt;
  }
  std::optional<Company> company = company_of(connection, turn);
  if (!company) {
    return std::nullopt;
  }
  std::vector<int32_t> key = company->others;
  key.push_back(-1);
  std::vector<JointLanes::Stream> streams;
  for (const auto& [kind, stream] : company->streams) {
    key.push_back(kind);
    streams.push_back({&ways_[at(stream)].way, &ways_[at(stream)].promise});
  }
  const Refused refused = refused_;
  const auto at_stop = [&](std::size_t stream, std::size_t stop, const Lanes& lanes, auto how) {
    Way& way = ways_[at(company->streams[stream].second)];
    const std::size_t at_switch = way.way.stops()[stop].at_switch;
    return how(switches_[at_switch], company->loads.at(at_switch), set_of(way, stop, lanes),
               way.way.alternates());
  };
  const JointLanes::Answer& answer = lanes_.joint.find(
      key, streams,
      {[&](std::size_t stream, std::size_t stop, const Lanes& lanes) {
         return at_stop(stream, stop, lanes, [&](Switch& one, Load& load, int32_t set, bool other) {
           return carries(one, load, set, other);
         });
       },
       [&](std::size_t stream, std::size_t stop, const Lanes& lanes) {
         at_stop(stream, stop, lanes, [](Switch& one, Load& load, int32_t set, bool other) {
           one.sets.add(load, set, other);
         });
       },
       [&](std::size_t stream, std::size_t stop, const Lanes& lanes) {
         at_stop(stream, stop, lanes, [](Switch& one, Load& load, int32_t set, bool other) {
           one.sets.remove(load, set, other);
         });
       },
       [&](LinkId link, int32_t lane) {
         return cores_.lane_group({link, lane});
       }});
  refused_ = refused;
  if (answer.lanes.empty()) {
    lanes_.undecided += answer.is_certain ? 0 : 1;
    return std::nullopt;
  }
  std::optional<Lanes> its;
  for (std::size_t stream = 0; stream < streams.size(); ++stream) {
    const int32_t one = company->streams[stream].second;
    if (one == connection) {
      its = answer.lanes[stream];
    } else if (answer.lanes[stream] != ways_[at(one)].promise) {
      move(one, answer.lanes[stream]);
      lanes_.moved.push_back(one);
    }
  }
  return its;
}

// One that is inside, to other lanes.
void Admission::move(int32_t connection, const Lanes& lanes) {
  Way& way = ways_[at(connection)];
  hold(way, -1);
  promise(way, lanes);
  for (std::size_t stop = 0; stop < way.way.stops().size(); ++stop) {
    Switch& one = switches_[way.way.stops()[stop].at_switch];
    Inside& inside = one.inside[way.places[stop]];
    Load& now = one.now[way.phase];
    one.sets.remove(now, inside.flows, way.way.alternates());
    inside.flows = set_of(way, stop, way.promise);
    one.sets.add(now, inside.flows, way.way.alternates());
  }
  hold(way, 1);
}

int32_t& Admission::users(const Way& way, int32_t wide, int32_t lane) {
  return lanes_.users[way.way.wide_links()[at(wide)].index()][at(lane)];
}

bool Admission::is_taken(const Way& way, const Lanes& lanes) {
  for (int32_t wide = 0; wide < way.way.wide_count(); ++wide) {
    if (users(way, wide, lanes[at(wide)]) > 0) {
      return true;
    }
  }
  return false;
}

// It holds its lanes, or does no more.
void Admission::hold(const Way& way, int32_t change) {
  if (way.way.alternates()) {
    return;
  }
  for (int32_t wide = 0; wide < way.way.wide_count(); ++wide) {
    users(way, wide, way.promise[at(wide)]) += change;
  }
  std::vector<int32_t>& narrow = lanes_.narrow_users[way.phase];
  narrow.resize(topology_.links().size(), 0);
  for (const LinkId link : way.way.narrow_links()) {
    narrow[link.index()] += change;
  }
}

void Admission::wait(int32_t connection, const Turn& turn) {
  Way& way = ways_[at(connection)];
  if (way.waits == turn) {
    return;
  }
  stop_waiting(connection);
  for (const SwitchWay::Stop& stop : way.way.stops()) {
    auto& waiting = switches_[stop.at_switch].waiting;
    const std::pair self(turn, connection);
    waiting.insert(std::ranges::upper_bound(waiting, self), self);
  }
  way.waits = turn;
}

void Admission::stop_waiting(int32_t connection) {
  Way& way = ways_[at(connection)];
  if (way.waits.has_value()) {
    for (const SwitchWay::Stop& stop : way.way.stops()) {
      std::erase(switches_[stop.at_switch].waiting, std::pair(*way.waits, connection));
    }
    way.waits.reset();
  }
}

// Of the switch's sets all but those that something is made of.
void Admission::forget(std::size_t at_switch) {
  Switch& one = switches_[at_switch];
  for (Way& way : ways_) {
    for (std::size_t stop = 0; stop < way.sets.size(); ++stop) {
      if (way.way.stops()[stop].at_switch == at_switch) {
        way.sets[stop].clear();
        way.promised[stop] = -1;
      }
    }
  }
  one.sets.forget([&](const FlowSets::Keep& keep) {
    for (Inside& inside : one.inside) {
      keep(inside.flows);
    }
    for (auto& [phase, load] : one.now) {
      keep(load);
    }
    keep(one.configured);
    for (auto& [changing, until_ps] : one.changes) {
      keep(changing);
    }
  });
}

bool Admission::enter(int32_t connection, const Turn& turn) {
  if (admits_all()) {
    return true;
  }
  Way& way = ways_[at(connection)];
  way.phase = phase_of(turn);
  for (const SwitchWay::Stop& stop : way.way.stops()) {
    if (switches_[stop.at_switch].sets.are_too_many()) {
      forget(stop.at_switch);
    }
  }
  Promises promises;
  lanes_.moved.clear();
  auto lanes = choose(connection, turn, promises);
  if (!lanes) {
    promises.clear();
    lanes = choose_together(connection, turn);
  }
  if (!lanes) {
    wait(connection, turn);
    return false;
  }
  stop_waiting(connection);
  way.is_inside = true;
  way.is_suspended = false;
  for (const auto& [first, promised] : promises) {
    promise(ways_[at(first)], promised);
  }
  promise(way, *lanes);
  for (std::size_t stop = 0; stop < way.way.stops().size(); ++stop) {
    Switch& one = switches_[way.way.stops()[stop].at_switch];
    const int32_t set = set_of(way, stop, way.promise);
    way.places[stop] = one.inside.size();
    one.inside.push_back({connection, set, first_before(one, connection, turn), stop});
    Load& now = one.now[way.phase];
    one.sets.add(now, set, way.way.alternates());
    count_configuration(one, now);
  }
  for (const int32_t other : lanes_.moved) {
    for (const SwitchWay::Stop& stop : ways_[at(other)].way.stops()) {
      Switch& one = switches_[stop.at_switch];
      count_configuration(one, one.now[way.phase]);
    }
  }
  hold(way, 1);
  pace(way.way);
  return true;
}

void Admission::count_configuration(Switch& one, const Load& now) {
  configurations_ += now.held != 0 && one.sets.note_inside(now.held) ? 1 : 0;
}

Admission::Configured Admission::configure(int32_t connection, int64_t now_ps,
                                           int64_t reconfiguration_ps) {
  Configured answer{now_ps};
  if (admits_all()) {
    return answer;
  }
  const int64_t changed_ps = add_times_ps(now_ps, reconfiguration_ps);
  configure_alone(connection, now_ps, changed_ps, answer);
  for (const int32_t other : std::exchange(lanes_.moved, {})) {
    configure_alone(other, now_ps, changed_ps, answer);
  }
  return answer;
}

void Admission::configure_alone(int32_t connection, int64_t now_ps, int64_t changed_ps,
                                Configured& answer) {
  const Way& way = ways_[at(connection)];
  for (std::size_t stop = 0; stop < way.way.stops().size() && !way.way.alternates(); ++stop) {
    Switch& one = switches_[way.way.stops()[stop].at_switch];
    const int32_t flows = one.inside[way.places[stop]].flows;
    std::erase_if(one.changes, [&](const auto& change) { return change.second <= now_ps; });
    if (one.sets.contains(one.configured, flows)) {
      for (const auto& [changing, until_ps] : one.changes) {
        if (one.sets.meet(changing, flows)) {
          answer.time_ps = std::max(answer.time_ps, until_ps);
        }
      }
      continue;
    }
    answer = {std::max(answer.time_ps, changed_ps), true};
    one.changes.emplace_back(flows, changed_ps);
    const int32_t all = one.sets.either(one.configured, flows);
    const int32_t inside = one.sets.common(one.configured, one.now.at(way.phase).held);
    one.configured =
        one.sets.carries(all, refused_.last_set) ? all : one.sets.either(inside, flows);
  }
}

// Of those inside the way's switches: who is there with one of a lower phase stands still.
void Admission::pace(const SwitchWay& way) {
  const auto has_phases = [&](const SwitchWay::Stop& stop) {
    return switches_[stop.at_switch].now.size() > 1;
  };
  if (suspended_.count == 0 && std::ranges::none_of(way.stops(), has_phases)) {
    return;
  }
  for (const SwitchWay::Stop& stop : way.stops()) {
    for (const Inside& inside : switches_[stop.at_switch].inside) {
      Way& other = ways_[at(inside.connection)];
      const bool stands = std::ranges::any_of(other.way.stops(), [&](const auto& its) {
        return switches_[its.at_switch].now.begin()->first < other.phase;
      });
      if (stands != other.is_suspended) {
        other.is_suspended = stands;
        suspended_.count += stands ? 1 : -1;
        suspended_.changed.push_back(inside.connection);
      }
    }
  }
}

Admission::Refusal Admission::last_refusal() const {
  const Switch& one = switches_[refused_.at_switch];
  Refusal refusal{one.node, {}};
  if (refused_.first >= 0) {
    refusal.in_the_way.push_back(refused_.first);
    return refusal;
  }
  refusal.set = refused_.sets.empty() ? 0 : refused_.sets.front();
  for (const Inside& other : one.inside) {
    if (ways_[at(other.connection)].phase < refused_.phase) {
      refusal.in_the_way.push_back(other.connection);
    }
    const std::vector<int32_t>& flows = one.sets.members(other.flows);
    const auto is_in_the_way = [&](int32_t set) {
      const std::vector<int32_t>& conflict = one.sets.conflict(set);
      return std::ranges::find_first_of(flows, conflict) != flows.end();
    };
    if (std::ranges::any_of(refused_.sets, is_in_the_way)) {
      refusal.in_the_way.push_back(other.connection);
    }
  }
  return refusal;
}

int32_t Admission::lane_of(int32_t connection, LinkId link) const {
  const Way& way = ways_[at(connection)];
  const std::span<const LinkId> wide = way.way.wide_links();
  const auto place = std::ranges::lower_bound(wide, link);
  return place == wide.end() || *place != link ? 0 : way.promise[at(place - wide.begin())];
}

std::optional<int32_t> Admission::level_of(const Refusal& refusal) const {
  const auto place = std::ranges::lower_bound(cores_.nodes(), refusal.node);
  const Switch& one = switches_[at(place - cores_.nodes().begin())];
  return refusal.set == 0 ? std::nullopt
                          : one.sets.core().conflict_level(one.sets.flows(refusal.set));
}

void Admission::leave(int32_t connection, std::vector<int32_t>& woken) {
  if (admits_all()) {
    return;
  }
  Way& way = ways_[at(connection)];
  way.is_inside = false;
  hold(way, -1);
  for (std::size_t stop = 0; stop < way.way.stops().size(); ++stop) {
    Switch& one = switches_[way.way.stops()[stop].at_switch];
    Inside* inside = &one.inside[way.places[stop]];
    Load& now = one.now[way.phase];
    one.sets.remove(now, inside->flows, way.way.alternates());
    if (rule_ == AdmissionRule::kPhase && now.is_empty()) {
      one.now.erase(way.phase);
    }
    *inside = one.inside.back();
    ways_[at(inside->connection)].places[inside->stop] = way.places[stop];
    one.inside.pop_back();
    for (const auto& [turn, other] : one.waiting) {
      woken.push_back(other);
    }
  }
  pace(way.way);
}

}  // namespace pleach
