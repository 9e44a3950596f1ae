#include "pleach/network/flit/packet_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "pleach/base/check.h"
#include "pleach/base/interruption.h"

namespace pleach {
namespace {

// Buckets of events about as long as a packet takes on a fast link.
constexpr int kEventShift = 8;
constexpr int kNumberBits = 56;
constexpr uint64_t kMillion = 1'000'000;
// A timeout is at least so many round trips of the stream, and doubles so many times.
constexpr int64_t kRoundTrips = 8;
constexpr int32_t kMostDoublings = 10;
constexpr int32_t kMostLate = 2;
constexpr int32_t kMostFruitless = 4096;

// The n-th link from one node to another is paired with the n-th back.
void pair_lines(const Topology& topology, std::vector<PacketLine>& lines) {
  std::map<std::pair<NodeId, NodeId>, std::vector<int32_t>> between;
  for (int32_t link = 0; link < count_of(lines); ++link) {
    const Link& one = topology.link(LinkId{link});
    between[{one.source, one.target}].push_back(link);
  }
  for (const auto& [ends, links] : between) {
    const auto back = between.find({ends.second, ends.first});
    for (std::size_t i = 0; back != between.end() && i < links.size(); ++i) {
      lines[at(links[i])].control.back = back->second[i % back->second.size()];
    }
  }
}

}  // namespace

PacketNetwork::PacketNetwork(const Topology& topology, const PacketShape& shape)
    : shape_(shape), events_(kEventShift), control_{{}, Rng(shape.go_back_n.seed)} {
  for (const Link& link : topology.links()) {
    PacketLine& line = lines_.emplace_back();
    line.bytes_per_s = link.bandwidth_bytes_per_s;
    line.hop_ps = topology.hop_latency_ps(LinkId{count_of(lines_) - 1});
    line.back_ps = link.latency_ps;
    line.queues.resize(at(shape.vcs));
    line.control.places = shape.control_places(link);
    places_.insert(places_.end(), at(shape.vcs), PacketPlaces(shape.places(link)));
  }
  pair_lines(topology, lines_);
}

std::vector<int32_t> PacketNetwork::add(const PacketWay& shape, int32_t vc) {
  const auto number = count_of(ways_);
  const int32_t first_leg = count_of(legs_), first_junction = count_of(junctions_);
  const auto moved = [](int32_t index, int32_t by) {
    return index == PacketWay::kEnd ? PacketWay::kEnd : index + by;
  };
  Way& way = ways_.emplace_back();
  way.vc = vc;
  for (const PacketWay::Leg& leg : shape.legs) {
    way.legs.push_back(count_of(legs_));
    if (leg.from == PacketWay::kEnd) {
      way.sources.push_back(count_of(legs_));
    }
    way.target_count += leg.to == PacketWay::kEnd ? 1 : 0;
    legs_.push_back({.way = number,
                     .line = leg.link.value,
                     .from = moved(leg.from, first_junction),
                     .to = moved(leg.to, first_junction)});
  }
  for (const PacketWay::Junction& junction : shape.junctions) {
    Junction& added = junctions_.emplace_back();
    added.way = number;
    added.is_gated = junction.is_gated;
    if (junction.is_gated) {
      added.limit = 0;
      way.gates.push_back(count_of(junctions_) - 1);
    }
    for (const int32_t leg : junction.inputs) {
      added.inputs.push_back(moved(leg, first_leg));
    }
    for (const int32_t leg : junction.outputs) {
      added.outputs.push_back(moved(leg, first_leg));
    }
  }
  mark_legs(way);
  int64_t slowest_ps = 0;
  for (const int32_t leg : way.legs) {
    slowest_ps = std::max(slowest_ps, lines_[at(legs_[at(leg)].line)].time_ps(shape_.payload_bytes +
                                                                              shape_.header_bytes));
  }
  // With as many packets as may lie between two acknowledgements.
  const __int128 packets = shape_.go_back_n.ack_every + 2 * count_of(way.legs);
  const __int128 round_trip_ps = 2 * __int128{shape.latency_ps} + packets * slowest_ps;
  way.recovery.timeout_ps = shape_.go_back_n.timeout_ps > 0
                                ? shape_.go_back_n.timeout_ps
                                : static_cast<int64_t>(std::min<__int128>(
                                      kLongestPs >> kMostDoublings, kRoundTrips * round_trip_ps));
  return way.gates;
}

bool PacketNetwork::may_join(int32_t number, std::vector<std::size_t>& taken) const {
  const Way& way = ways_[at(number)];
  const auto index_of = [&](int32_t leg) {
    return at(legs_[at(leg)].line) * at(shape_.vcs) + at(way.vc);
  };
  const bool may = std::ranges::all_of(way.legs, [&](int32_t leg) {
    const std::size_t index = index_of(leg);
    return (way.vc == 0 ? places_[index].may_owe() : places_[index].may_join()) &&
           std::ranges::find(taken, index) == taken.end();
  });
  for (const int32_t leg : may ? std::vector<int32_t>() : way.legs) {
    taken.push_back(index_of(leg));
  }
  return may;
}

void PacketNetwork::join(int32_t number) {
  Way& way = ways_[at(number)];
  for (const int32_t leg : way.legs) {
    legs_[at(leg)].is_owed = places_of(legs_[at(leg)]).join(leg);
  }
  way.has_joined = true;
}

void PacketNetwork::quit(int32_t number) {
  Way& way = ways_[at(number)];
  PLEACH_CHECK(way.held == 0 && has_all_arrived(way), "a stream quits that has packets");
  way.messages.clear();
  way.arrived = 0;
  for (const int32_t leg : way.legs) {
    settle(places_of(legs_[at(leg)]).quit());
    touch(legs_[at(leg)].line);  // the place that it kept is free
  }
  way.has_joined = false;
}

void PacketNetwork::send(int32_t number, int64_t payload_bytes, int64_t now_ps) {
  Way& way = ways_[at(number)];
  const int64_t count =
      std::max<int64_t>(1, (payload_bytes + shape_.payload_bytes - 1) / shape_.payload_bytes);
  Message message;
  message.begin = way.supplied;
  message.end = way.supplied + count;
  message.last_bytes = payload_bytes - (count - 1) * shape_.payload_bytes;
  way.messages.push(message);
  way.supplied = message.end;
  if (shape_.go_back_n.lost_per_million > 0 && !way.recovery.is_watched) {
    way.recovery.is_watched = true;
    push(now_ps + way.recovery.timeout_ps, Kind::kWatch, number);
  }
  for (const int32_t leg : way.sources) {
    consider(leg, now_ps);
  }
}

int64_t PacketNetwork::payload_bytes(const Way& way, int64_t packet) const {
  for (std::size_t i = way.messages.size(); i-- > 0;) {  // most are of the last
    if (packet >= way.messages[i].begin) {
      return packet + 1 == way.messages[i].end ? way.messages[i].last_bytes : shape_.payload_bytes;
    }
  }
  PLEACH_CHECK(false, "a packet of no message");
  return 0;
}

void PacketNetwork::push(int64_t time_ps, Kind kind, int32_t number) {
  events_.push(
      {time_ps, static_cast<uint64_t>(kind) << kNumberBits | static_cast<uint64_t>(number)});
}

// Whether the leg's next packet is where it begins, and may pass there.
bool PacketNetwork::has_packet(const Leg& leg) const {
  const Way& way = ways_[at(leg.way)];
  if (leg.from == PacketWay::kEnd) {
    return leg.next < way.supplied;
  }
  const Junction& junction = junctions_[at(leg.from)];
  if (leg.next >= junction.limit || (junction.is_gated && way.is_closed)) {
    return false;
  }
  const auto place = static_cast<std::size_t>(leg.next - junction.first);
  return place < junction.held.size() && junction.held[place].came == count_of(junction.inputs);
}

// Lets the leg wait for its link, from when its next packet may go on.
void PacketNetwork::consider(int32_t number, int64_t now_ps) {
  Leg& leg = legs_[at(number)];
  if (leg.is_queued || !has_packet(leg)) {
    return;
  }
  leg.is_queued = true;
  if (!leg.is_sending) {
    leg.is_sending = true;
    places_of(leg).start_sending();
  }
  if (leg.from != PacketWay::kEnd) {
    const PacketLine& line = lines_[at(leg.line)];
    const Junction& junction = junctions_[at(leg.from)];
    const int64_t bytes = wire_bytes(leg, leg.next);
    const int64_t rest_bytes = bytes - std::min(bytes, shape_.flit_bytes);
    const int64_t ready_ps =
        junction.held[static_cast<std::size_t>(leg.next - junction.first)].tail_ps -
        line.time_ps(rest_bytes);
    if (ready_ps > now_ps) {
      return push(ready_ps, Kind::kReady, number);
    }
  }
  enqueue(number);
}

void PacketNetwork::enqueue(int32_t number) {
  const Leg& leg = legs_[at(number)];
  lines_[at(leg.line)].queues[at(ways_[at(leg.way)].vc)].push_back(number);
  touch(leg.line);
}

void PacketNetwork::touch(int32_t line) {
  if (!lines_[at(line)].is_touched && lines_[at(line)].active.leg == PacketLine::kIdle) {
    lines_[at(line)].is_touched = true;
    touched_.push_back(line);
  }
}

void PacketNetwork::run(int64_t now_ps) {
  while (!events_.empty() && events_.top().time_ps == now_ps) {
    check_interruption();
    const uint64_t tag = events_.top().tag;
    events_.pop();
    const auto number = static_cast<int32_t>(tag & ((uint64_t{1} << kNumberBits) - 1));
    switch (static_cast<Kind>(tag >> kNumberBits)) {
      case Kind::kCame:
        came(number, now_ps);
        break;
      case Kind::kLeft:
        left(number, now_ps);
        break;
      case Kind::kCredit:
        credit(number);
        break;
      case Kind::kReady:
        enqueue(number);
        break;
      case Kind::kControl:
        told(number, now_ps);
        break;
      case Kind::kControlCredit:
        --lines_[at(number)].control.used;
        touch(number);
        break;
      case Kind::kWatch:
        watch(number, now_ps);
        break;
    }
  }
}

// A packet is at the other end of a link: its first flit, and at a target all of it.
void PacketNetwork::came(int32_t number, int64_t now_ps) {
  Leg& leg = legs_[at(number)];
  const Flight flight = leg.flying.pop();
  const bool is_taken = accept(number, flight, now_ps);
  if (!is_taken || leg.to == PacketWay::kEnd) {
    push(now_ps + lines_[at(leg.line)].back_ps, Kind::kCredit, number);
  }
  if (!is_taken) {
    return;
  }
  if (shape_.go_back_n.ack_every > 0 && leg.expected % shape_.go_back_n.ack_every == 0) {
    acknowledge(number, now_ps);
  }
  if (leg.to == PacketWay::kEnd) {
    return arrived(leg, flight.packet, now_ps);
  }
  Junction& junction = junctions_[at(leg.to)];
  const auto place = static_cast<std::size_t>(flight.packet - junction.first);
  while (junction.held.size() <= place) {
    junction.held.push({});
  }
  Held& held = junction.held[place];
  held.tail_ps = std::max(held.tail_ps, flight.tail_ps);
  if (++held.came < count_of(junction.inputs)) {
    return;
  }
  for (const int32_t output : junction.outputs) {
    consider(output, now_ps);
  }
}

// Whether it is the next one, unharmed.
bool PacketNetwork::accept(int32_t number, const Flight& flight, int64_t now_ps) {
  Leg& leg = legs_[at(number)];
  if (flight.is_lost) {
    return false;
  }
  Recovery& recovery = ways_[at(leg.way)].recovery;
  if (leg.to != PacketWay::kEnd && flight.round != junctions_[at(leg.to)].round) {
    if (flight.round < junctions_[at(leg.to)].round) {
      return false;
    }
    restart(leg.to, flight.round, recovery.starts[at(flight.round)], now_ps);
  }
  if (flight.packet == leg.expected) {
    ++leg.expected;
    return true;
  }
  if (flight.packet > leg.expected && leg.nacked < flight.round) {
    leg.nacked = flight.round;
    miss(number, flight.round, now_ps);
  }
  return false;
}

void PacketNetwork::arrived(Leg& leg, int64_t packet, int64_t now_ps) {
  Way& way = ways_[at(leg.way)];
  ++way.recovery.accepted;
  for (std::size_t i = way.arrived; i < way.messages.size(); ++i) {
    if (packet + 1 == way.messages[i].end) {
      ++way.messages[i].arrived;
    }
  }
  while (!has_all_arrived(way) && way.messages[way.arrived].arrived == way.target_count) {
    ++way.arrived;
    report(Report::What::kArrived, leg.way);
    if (has_all_arrived(way) && shape_.go_back_n.lost_per_million > 0) {
      forget_rest(leg.way, now_ps);
      report(Report::What::kSettled, leg.way);
    }
  }
}

void PacketNetwork::continue_at(Leg& leg, int64_t packet) {
  leg.next = packet;
  if (leg.is_sending && packet == ways_[at(leg.way)].supplied) {
    leg.is_sending = false;
    places_of(leg).stop_sending();
  }
}

// The junction begins a round, and lets go of what it holds.
void PacketNetwork::restart(int32_t number, int32_t round, int64_t first, int64_t now_ps) {
  Junction& junction = junctions_[at(number)];
  for (const int32_t input : junction.inputs) {
    Leg& leg = legs_[at(input)];
    for (int64_t packet = junction.first; packet < leg.expected; ++packet) {
      push(now_ps + lines_[at(leg.line)].back_ps, Kind::kCredit, input);
    }
    leg.expected = first;
  }
  for (const int32_t output : junction.outputs) {
    continue_at(legs_[at(output)], first);
  }
  junction.held.clear();
  junction.first = first;
  junction.round = round;
}

// All sources at once, as they hear of it.
void PacketNetwork::go_back(int32_t number, int64_t packet, int64_t now_ps) {
  Way& way = ways_[at(number)];
  Recovery& recovery = way.recovery;
  recovery.fruitless = packet > recovery.starts.back() ? 0 : recovery.fruitless + 1;
  if (recovery.fruitless == kMostFruitless) {
    report(Report::What::kHopeless, number);
  }
  recovery.starts.push_back(packet);
  ++control_.counts.go_backs;
  for (const int32_t source : way.sources) {
    continue_at(legs_[at(source)], packet);
    consider(source, now_ps);
  }
}

// One that is missed in a round before the present one, and comes in this, has been sent again.
void PacketNetwork::go_back_for(const Nack& nack, int64_t now_ps) {
  const Way& way = ways_[at(nack.way)];
  if (has_all_arrived(way)) {
    return;
  }
  // What came before is at all targets: it may be missed only where it was sent again.
  const int64_t packet = std::max(nack.packet, way.messages[way.arrived].begin);
  const std::vector<int64_t>& starts = way.recovery.starts;
  const bool is_known = nack.round + 1 < count_of(starts) && starts.back() <= packet;
  if (!is_known) {
    go_back(nack.way, packet, now_ps);
  }
}

// Looks whether anything has come since it last looked; if not, for twice as long each time, goes
// back to what all targets have acknowledged.
void PacketNetwork::watch(int32_t number, int64_t now_ps) {
  Way& way = ways_[at(number)];
  Recovery& recovery = way.recovery;
  if (has_all_arrived(way)) {
    recovery.is_watched = false;
    return;
  }
  if (recovery.accepted != recovery.seen || way.is_closed) {
    recovery.seen = recovery.accepted;
    recovery.silent = 0;
  } else {
    int64_t least = way.supplied;
    for (const int32_t leg : way.legs) {
      if (legs_[at(leg)].to == PacketWay::kEnd) {
        least = std::min(least, legs_[at(leg)].expected);
      }
    }
    const int64_t acknowledged = least - least % shape_.go_back_n.ack_every;
    ++control_.counts.timeouts;
    recovery.silent = std::min(recovery.silent + 1, kMostDoublings);
    go_back(number, std::max(acknowledged, way.messages[way.arrived].begin), now_ps);
  }
  push(now_ps + (recovery.timeout_ps << recovery.silent), Kind::kWatch, number);
}

// All has arrived: what is still held or would be sent again is of no use.
void PacketNetwork::forget_rest(int32_t number, int64_t now_ps) {
  Way& way = ways_[at(number)];
  way.recovery.starts.push_back(way.supplied);
  const int32_t round = count_of(way.recovery.starts) - 1;
  for (const int32_t index : way.legs) {
    Leg& leg = legs_[at(index)];
    if (leg.to != PacketWay::kEnd && junctions_[at(leg.to)].round < round) {
      restart(leg.to, round, way.supplied, now_ps);
    }
    if (leg.from == PacketWay::kEnd) {
      continue_at(leg, way.supplied);
    }
  }
}

// A packet has passed into a link.
void PacketNetwork::left(int32_t line_number, int64_t now_ps) {
  PacketLine& line = lines_[at(line_number)];
  const int32_t number = std::exchange(line.active.leg, PacketLine::kIdle);
  touch(line_number);
  if (number == PacketLine::kControl) {
    return;
  }
  Leg& leg = legs_[at(number)];
  Way& way = ways_[at(leg.way)];
  const int64_t packet = line.active.packet;
  if (leg.from == PacketWay::kEnd) {
    if (packet >= leg.left) {  // what is sent again may be of a message that has arrived since
      leg.left = packet + 1;
      Message& message = way.messages.back();
      if (leg.left == message.end && ++message.left == count_of(way.sources)) {
        report(Report::What::kLeft, leg.way);
      }
    }
    return consider(number, now_ps);
  }
  Junction& junction = junctions_[at(leg.from)];
  if (line.active.round == junction.round) {
    ++junction.held[static_cast<std::size_t>(packet - junction.first)].left;
  }
  while (!junction.held.empty() && junction.held.front().left == count_of(junction.outputs)) {
    junction.held.pop();
    if (++junction.first == junction.limit) {
      report(Report::What::kPassed, leg.way, leg.from);
    }
    for (const int32_t input : junction.inputs) {
      push(now_ps + lines_[at(legs_[at(input)].line)].back_ps, Kind::kCredit, input);
    }
  }
  if (junction.is_gated && --way.passing == 0 && way.is_closed) {
    report(Report::What::kStill, leg.way);
  }
  consider(number, now_ps);
}

// Its link is looked at anyway, as a place behind it is free.
void PacketNetwork::settle(int32_t leg) {
  if (leg != PacketPlaces::kNobody) {
    legs_[at(leg)].is_owed = false;
  }
}

void PacketNetwork::credit(int32_t number) {
  Leg& leg = legs_[at(number)];
  Way& way = ways_[at(leg.way)];
  settle(places_of(leg).give_back(leg.held--));
  leg.taken_ps.pop();
  touch(leg.line);
  if (--way.held == 0 && has_all_arrived(way)) {
    report(Report::What::kDrained, leg.way);
  }
}

void PacketNetwork::begin(int64_t now_ps) {
  std::ranges::sort(touched_);
  const std::vector<int32_t> lines = std::exchange(touched_, {});
  for (const int32_t line : lines) {
    lines_[at(line)].is_touched = false;
    begin_on(line, now_ps);
  }
}

// A stream that shares the buffer with others, has its share of it, and of whose packets some have
// not got on for longer than their credits take, does not send more.
bool PacketNetwork::has_place(const Leg& leg, int64_t now_ps) {
  const PacketPlaces& places = places_of(leg);
  const PacketLine& line = lines_[at(leg.line)];
  if (places.is_shared() && leg.held > std::max(kMostLate, places.share())) {
    const int64_t round_trip_ps =
        line.hop_ps + line.back_ps + 2 * line.time_ps(shape_.payload_bytes + shape_.header_bytes);
    if (leg.taken_ps[kMostLate] + round_trip_ps < now_ps) {
      return false;
    }
  }
  return !leg.is_owed && places.may_take(leg.held);
}

// The first packet, by virtual channel and turn, that has a place behind the link.
void PacketNetwork::begin_on(int32_t number, int64_t now_ps) {
  PacketLine& line = lines_[at(number)];
  if (begin_control(number, now_ps)) {
    return;
  }
  for (std::vector<int32_t>& queue : line.queues) {
    for (std::size_t i = 0; i < queue.size();) {
      Leg& leg = legs_[at(queue[i])];
      if (!has_packet(leg)) {  // its gates were closed
        leg.is_queued = false;
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (has_place(leg, now_ps)) {
        const int32_t first = queue[i];
        leg.is_queued = false;
        queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
        return transmit(first, now_ps);
      }
      ++i;
      line.waits_ps = line.waits_ps < 0 ? now_ps : line.waits_ps;
    }
  }
}

void PacketNetwork::transmit(int32_t number, int64_t now_ps) {
  Leg& leg = legs_[at(number)];
  Way& way = ways_[at(leg.way)];
  PacketLine& line = lines_[at(leg.line)];
  PacketPlaces& places = places_of(leg);
  line.active.leg = number;
  if (line.waits_ps >= 0) {
    control_.counts.place_waits_ps += now_ps - std::exchange(line.waits_ps, -1);
  }
  line.active.packet = leg.next;
  continue_at(leg, leg.next + 1);
  line.active.round = leg.from == PacketWay::kEnd ? count_of(way.recovery.starts) - 1
                                                  : junctions_[at(leg.from)].round;
  const int64_t bytes = wire_bytes(leg, line.active.packet);
  const int64_t end_ps = line.begin(bytes, now_ps);
  places.take(leg.held++);
  leg.taken_ps.push(now_ps);
  ++way.held;
  ++control_.counts.packets;
  control_.counts.deepest_buffer = std::max<int64_t>(control_.counts.deepest_buffer, places.used());
  const bool is_lost = shape_.go_back_n.lost_per_million > 0 &&
                       control_.losses.below(kMillion) < at(shape_.go_back_n.lost_per_million);
  control_.counts.lost += is_lost ? 1 : 0;
  leg.flying.push({line.active.packet, line.active.round, is_lost, end_ps + line.hop_ps});
  const int64_t head_ps = now_ps + line.time_ps(std::min(bytes, shape_.flit_bytes));
  push((leg.to == PacketWay::kEnd ? end_ps : std::min(end_ps, head_ps)) + line.hop_ps, Kind::kCame,
       number);
  push(end_ps, Kind::kLeft, leg.line);
  if (leg.from != PacketWay::kEnd && junctions_[at(leg.from)].is_gated) {
    ++way.passing;
  }
}

void PacketNetwork::set_limit(int32_t gate, int64_t limit, int64_t now_ps) {
  Junction& junction = junctions_[at(gate)];
  junction.limit = limit;
  if (limit > 0 && junction.first == limit) {
    report(Report::What::kPassed, junction.way, gate);
  }
  for (const int32_t leg : junction.outputs) {
    consider(leg, now_ps);
  }
}

void PacketNetwork::close(int32_t number) {
  Way& way = ways_[at(number)];
  way.is_closed = true;
  if (way.passing == 0) {
    report(Report::What::kStill, number);
  }
}

void PacketNetwork::reopen(int32_t number, int64_t now_ps) {
  ways_[at(number)].is_closed = false;
  for (const int32_t gate : ways_[at(number)].gates) {
    for (const int32_t leg : junctions_[at(gate)].outputs) {
      consider(leg, now_ps);
    }
  }
}

std::vector<LinkUse> PacketNetwork::use() const {
  std::vector<LinkUse> uses;
  for (const PacketLine& line : lines_) {
    uses.push_back(line.use);
  }
  return uses;
}

std::string PacketNetwork::inconsistency() const {
  std::vector<int64_t> held(places_.size());
  for (const Leg& leg : legs_) {
    held[at(leg.line) * at(shape_.vcs) + at(ways_[at(leg.way)].vc)] += leg.held;
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] != places_[i].used() || held[i] > places_[i].places()) {
      return fmt::format("link {}: {} of {} places are taken, streams hold {}", i / at(shape_.vcs),
                         places_[i].used(), places_[i].places(), held[i]);
    }
  }
  return {};
}

}  // namespace pleach
