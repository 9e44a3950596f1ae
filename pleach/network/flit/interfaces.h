// Interfaces: how messages go from the memory of ranks through the buffers of their interfaces into
// the network, and when they have come out.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/time_wheel.h"
#include "pleach/network/session.h"

namespace pleach {

// How an interface cuts messages, and how much it holds.
struct InterfaceShape {
  FlowControl flow_control = FlowControl::kPacket;
  int64_t flit_bytes = 16;
  int64_t packet_bytes = 256;   // payload of a sub-message
  int32_t header_flits = 1;     // before every sub-message; by messages before the first
  int32_t message_places = 32;  // sub-messages in the buffer behind the memory
  int32_t send_places = 16;     // in the one behind that
  int32_t queue_flits = 80;     // in the queue before the network
  bool fills_queue = true;      // a sub-message enters it below this; else only where it has room

  int64_t sub_messages(int64_t bytes) const {
    return bytes == 0 ? 1 : (bytes + packet_bytes - 1) / packet_bytes;
  }
  // Flits of the payload of all but the last one.
  int64_t packet_flits() const { return (packet_bytes + flit_bytes - 1) / flit_bytes; }
  int64_t header_flits_of(int64_t bytes) const {
    return header_flits * (flow_control == FlowControl::kMessage ? 1 : sub_messages(bytes));
  }
  // Of a message's sub-message, from 0, with its header where it has one. At least one.
  int64_t flits_of(int64_t bytes, int64_t sub_message) const;
  // Of all of them.
  int64_t flits(int64_t bytes) const;
  // Of a packet's last flits and header: the shortest packet of a message.
  int64_t shortest_packet(int64_t bytes) const;
};

// An interface that is free takes a message. In every cycle from the next one on, or from when the
// message's overhead has passed, one sub-message of at most packet_bytes moves from memory to the
// message buffer, one from there to the send buffer, and one from there to the queue, where there
// is room; it may be sent in the cycle in which it gets there. When its last one has left the
// memory, the interface is free, and the message taken. By packets every sub-message is a packet;
// by messages all are one, with one header, which goes as its sub-messages come.
//   source  MultiTree (ISCA 2021), section IV: there 32 and 16 places and 80 flits, or 318
//   threads not safe
class Interfaces {
 public:
  struct Message {
    int32_t interface = 0;
    int64_t bytes = 0;
    std::span<const uint16_t> hops = {};  // as Routers::Packet; outlives the message
    int32_t priority = 0;
    int32_t tag = 0;              // the caller's
    int64_t overhead_cycles = 0;  // before its first sub-message moves
  };

  // Borrows the routers.
  Interfaces(Routers& routers, const InterfaceShape& shape, int32_t interface_count);

  bool is_free(int32_t interface) const { return lines_[at(interface)].left == 0; }
  // A free interface takes a message in cycle `now`.
  void take(const Message& message, int64_t now);
  // The first cycle ≥ `now` in which something may move; none: nothing will.
  std::optional<int64_t> next(int64_t now) const;
  // What moves in cycle `now`, before the routers end it.
  void move(int64_t now);
  // Of the last move(): the tags of messages that have been taken.
  std::span<const int32_t> taken() const { return taken_; }
  // A packet's last flit was delivered: the tag of its message, if that is complete with it.
  std::optional<int32_t> complete(PacketNumber packet);

 private:
  struct Live {
    Message message;
    int64_t sub_messages = 0;
    int64_t queued = 0;        // of them, how many have come to the queue
    int64_t packets_left = 0;  // to be delivered
    PacketNumber packet = 0;   // by messages
  };
  struct Line {
    int64_t left = 0;                  // sub-messages of the last message that are in memory
    int32_t last = 0;                  // that message
    int64_t starts = 0;                // the cycle in which its first one may move
    std::deque<int32_t> buffer, send;  // messages, by sub-message
    int64_t wakes = INT64_MAX;         // the cycle in which it is looked at
  };

  void wake(int32_t interface, int64_t cycle);
  // Flits that must leave the queue before the first sub-message of the send buffer enters it.
  int64_t excess_flits(int32_t interface) const;
  void move_line(int32_t interface, int64_t now);
  void enqueue(int32_t number);

  Routers& routers_;
  const InterfaceShape shape_;
  std::vector<Line> lines_;
  TimeWheel<int32_t> wakes_;
  std::set<std::pair<int64_t, int32_t>> starts_;  // cycle and interface, after an overhead
  std::vector<Live> live_;
  std::vector<int32_t> unused_;
  std::vector<int32_t> message_of_;  // by packet
  std::vector<int32_t> taken_;
};

}  // namespace pleach
