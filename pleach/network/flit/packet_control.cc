// PacketNetwork's control packets.
#include <algorithm>

#include "pleach/network/flit/packet_network.h"

namespace pleach {

// Which of its links packets of all sources pass.
void PacketNetwork::mark_legs(const Way& way) {
  const auto sources = [&](int32_t leg, const auto& self) -> int32_t {
    if (legs_[at(leg)].from == PacketWay::kEnd) {
      return 1;
    }
    int32_t count = 0;
    for (const int32_t input : junctions_[at(legs_[at(leg)].from)].inputs) {
      count += self(input, self);
    }
    return count;
  };
  for (const int32_t leg : way.legs) {
    legs_[at(leg)].tells_all = sources(leg, sources) == count_of(way.sources);
  }
}

// Of a link at a time one packet waits, which says of all that has come when it goes.
void PacketNetwork::acknowledge(int32_t number, int64_t now_ps) {
  Leg& leg = legs_[at(number)];
  if (lines_[at(leg.line)].control.back != PacketLine::kNoLine && !leg.has_ack) {
    leg.has_ack = true;
    tell({.leg = number}, now_ps);
  }
}

// The next packet at the end of a link is not the one that is expected there.
void PacketNetwork::miss(int32_t number, int32_t round, int64_t now_ps) {
  const Leg& leg = legs_[at(number)];
  const int32_t nack =
      control_.nacks.add({leg.way, leg.expected, round, count_of(ways_[at(leg.way)].sources)});
  if (leg.to == PacketWay::kEnd) {
    tell({.leg = number, .nack = nack}, now_ps);
  } else {
    spread(nack, leg.to, PacketWay::kEnd, now_ps);
  }
}

// From a junction to all sources but those in the direction that it came from.
void PacketNetwork::spread(int32_t nack, int32_t junction, int32_t from, int64_t now_ps) {
  for (const int32_t input : junctions_[at(junction)].inputs) {
    if (input != from) {
      tell({.leg = input, .nack = nack}, now_ps);
    }
  }
  for (const int32_t output : junctions_[at(junction)].outputs) {
    if (output != from && !legs_[at(output)].tells_all) {
      tell({.leg = output, .is_forward = true, .nack = nack}, now_ps);
    }
  }
}

int32_t PacketNetwork::line_of(const Control& control) const {
  const int32_t line = legs_[at(control.leg)].line;
  return control.is_forward ? line : lines_[at(line)].control.back;
}

// Where there is no link back, it takes the latency of the one there is.
void PacketNetwork::tell(const Control& control, int64_t now_ps) {
  const int32_t line = line_of(control), packet = control_.packets.add(control);
  if (line == PacketLine::kNoLine) {
    return push(now_ps + lines_[at(legs_[at(control.leg)].line)].hop_ps, Kind::kControl, packet);
  }
  lines_[at(line)].control.queue.push(packet);
  touch(line);
}

// Returns whether one has begun to pass.
bool PacketNetwork::begin_control(int32_t number, int64_t now_ps) {
  PacketLine& line = lines_[at(number)];
  if (line.control.queue.empty()) {
    return false;
  }
  if (line.control.used == line.control.places) {
    line.control.waits_ps = line.control.waits_ps < 0 ? now_ps : line.control.waits_ps;
    return false;
  }
  if (line.control.waits_ps >= 0) {
    control_.counts.control_waits_ps += now_ps - std::exchange(line.control.waits_ps, -1);
  }
  const int32_t packet = line.control.queue.pop();
  if (const Control& control = control_.packets[packet]; control.nack == Control::kAck) {
    legs_[at(control.leg)].has_ack = false;
  }
  ++control_.counts.control_packets;
  control_.counts.deepest_control_buffer =
      std::max<int64_t>(control_.counts.deepest_control_buffer, ++line.control.used);
  line.active.leg = PacketLine::kControl;
  const int64_t end_ps = line.begin(shape_.control.payload_bytes + shape_.header_bytes, now_ps);
  push(end_ps, Kind::kLeft, number);
  push(end_ps + line.hop_ps, Kind::kControl, packet);
  return true;
}

// It is at the other end, and gives its place back at once.
void PacketNetwork::told(int32_t packet, int64_t now_ps) {
  const Control control = control_.packets.take(packet);
  if (const int32_t line = line_of(control); line != PacketLine::kNoLine) {
    push(now_ps + lines_[at(line)].back_ps, Kind::kControlCredit, line);
  }
  if (control.nack == Control::kAck) {
    return;
  }
  const Leg& leg = legs_[at(control.leg)];
  const int32_t junction = control.is_forward ? leg.to : leg.from;
  if (junction != PacketWay::kEnd) {
    spread(control.nack, junction, control.leg, now_ps);
  } else if (--control_.nacks[control.nack].sources == 0) {
    go_back_for(control_.nacks.take(control.nack), now_ps);
  }
}

}  // namespace pleach
