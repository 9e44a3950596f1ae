#include "pleach/network/flit/interfaces.h"

#include <algorithm>

namespace pleach {

int64_t InterfaceShape::flits_of(int64_t bytes, int64_t sub_message) const {
  const int64_t payload = std::min(packet_bytes, bytes - sub_message * packet_bytes);
  const bool has_header = flow_control == FlowControl::kPacket || sub_message == 0;
  return std::max<int64_t>(
      1, (payload + flit_bytes - 1) / flit_bytes + (has_header ? header_flits : 0));
}

// All but the first and the last are alike.
int64_t InterfaceShape::flits(int64_t bytes) const {
  const int64_t last = sub_messages(bytes) - 1;
  const int64_t first_flits = flits_of(bytes, 0);
  return last == 0 ? first_flits
                   : first_flits + (last - 1) * flits_of(bytes, 1) + flits_of(bytes, last);
}

int64_t InterfaceShape::shortest_packet(int64_t bytes) const {
  return flow_control == FlowControl::kMessage ? flits(bytes)
                                               : flits_of(bytes, sub_messages(bytes) - 1);
}

Interfaces::Interfaces(Routers& routers, const InterfaceShape& shape, int32_t interface_count)
    : routers_(routers),
      shape_(shape),
      lines_(at(interface_count)),
      wakes_(shape.packet_flits() + shape.header_flits + 2) {}

void Interfaces::wake(int32_t interface, int64_t cycle) {
  Line& line = lines_[at(interface)];
  if (cycle < line.wakes) {
    line.wakes = cycle;
    wakes_.add(cycle, interface);
  }
}

void Interfaces::take(const Message& message, int64_t now) {
  if (unused_.empty()) {
    unused_.push_back(count_of(live_));
    live_.emplace_back();
  }
  const int32_t number = unused_.back();
  unused_.pop_back();
  const int64_t count = shape_.sub_messages(message.bytes);
  const bool is_one = shape_.flow_control == FlowControl::kMessage;
  live_[at(number)] = {
      .message = message, .sub_messages = count, .packets_left = is_one ? 1 : count};
  Line& line = lines_[at(message.interface)];
  line.left = count;
  line.last = number;
  line.starts = now + 1 + message.overhead_cycles;
  if (message.overhead_cycles == 0) {
    wake(message.interface, now + 1);
  } else {  // longer than the wheel reaches
    starts_.emplace(line.starts, message.interface);
  }
}

std::optional<int64_t> Interfaces::next(int64_t now) const {
  const int64_t next = wakes_.next(now, starts_.empty() ? INT64_MAX : starts_.begin()->first);
  return next == INT64_MAX ? std::nullopt : std::optional(next);
}

void Interfaces::move(int64_t now) {
  taken_.clear();
  while (!starts_.empty() && starts_.begin()->first <= now) {
    wake(starts_.begin()->second, now);
    starts_.erase(starts_.begin());
  }
  wakes_.take(now, [&](int32_t interface) {
    if (lines_[at(interface)].wakes == now) {
      lines_[at(interface)].wakes = INT64_MAX;
      move_line(interface, now);
    }
  });
}

// A sub-message larger than the queue waits until that is empty.
int64_t Interfaces::excess_flits(int32_t interface) const {
  const int64_t queued = routers_.queued_flits(interface);
  if (shape_.fills_queue) {
    return queued + 1 - shape_.queue_flits;
  }
  const Live& live = live_[at(lines_[at(interface)].send.front())];
  const int64_t flits = shape_.flits_of(live.message.bytes, live.queued);
  return queued + std::min<int64_t>(flits, shape_.queue_flits) - shape_.queue_flits;
}

void Interfaces::move_line(int32_t interface, int64_t now) {
  Line& line = lines_[at(interface)];
  if (!line.send.empty() && excess_flits(interface) <= 0) {
    enqueue(line.send.front());
    line.send.pop_front();
  }
  if (!line.buffer.empty() && count_of(line.send) < shape_.send_places) {
    line.send.push_back(line.buffer.front());
    line.buffer.pop_front();
  }
  if (line.left > 0 && line.starts <= now && count_of(line.buffer) < shape_.message_places) {
    line.buffer.push_back(line.last);
    if (--line.left == 0) {
      taken_.push_back(live_[at(line.last)].message.tag);
    }
  }
  const bool takes = line.left > 0 && count_of(line.buffer) < shape_.message_places;
  if ((takes && line.starts <= now) ||
      (!line.buffer.empty() && count_of(line.send) < shape_.send_places)) {
    wake(interface, now + 1);
    return;
  }
  if (!line.send.empty()) {  // one flit leaves the queue in a cycle, at most
    wake(interface, now + std::max<int64_t>(1, excess_flits(interface)));
  }
}

void Interfaces::enqueue(int32_t number) {
  Live& live = live_[at(number)];
  const Message& message = live.message;
  const bool is_one = shape_.flow_control == FlowControl::kMessage;
  const auto flits = static_cast<int32_t>(shape_.flits_of(message.bytes, live.queued));
  if (is_one && live.queued > 0) {
    routers_.supply(message.interface, live.packet, flits);
  } else {
    const int64_t length = is_one ? shape_.flits(message.bytes) : flits;
    live.packet = routers_.offer(message.interface, {.hops = message.hops,
                                                     .length = static_cast<int32_t>(length),
                                                     .supplied = flits,
                                                     .priority = message.priority});
    message_of_.resize(std::max(message_of_.size(), std::size_t{live.packet} + 1));
    message_of_[live.packet] = number;
  }
  ++live.queued;
}

std::optional<int32_t> Interfaces::complete(PacketNumber packet) {
  const int32_t number = message_of_[packet];
  Live& live = live_[at(number)];
  if (--live.packets_left > 0) {
    return std::nullopt;
  }
  unused_.push_back(number);
  return live.message.tag;
}

}  // namespace pleach
