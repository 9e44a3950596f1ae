// PacketNetwork: packets of streams on links and in switches, packet by packet.
//
// A switch has a buffer for each virtual channel behind every link into it. A packet goes on when
// its first flit is there and its rest will come in time (virtual cut-through), at a junction with
// several inputs when that holds at all of them: they are added as they pass, and what was held of
// each leaves its buffer together, when the last output of the junction has it. Each output takes
// its copy when the link is free and a place behind it too. A *gate* is a junction that lets
// packets pass up to a limit only, which its owner sets. Of what waits for a link the smallest
// virtual channel goes first, within one the packets of streams by turns. Ranks that are targets
// take packets at once.
//
// Where packets get lost on links, Go-Back-N. A junction, at each of its inputs, and a target take
// packets in order only. Who sees one out of order tells all sources of the stream which it lacks;
// they go back to that one, and what they send from there on is the next *round*. A junction that
// sees a packet of a later round lets go of what it holds and begins with that round's first.
// Sources that hear of no progress for long go back to what was acknowledged.
//
// Control packets have a virtual channel of their own, and go before all others. They say of a link
// what has come over it (of a stream one at a time, cumulatively), or pass on what is missed, link
// by link, to all sources; whoever gets one takes it at once.
//   cost     about four events for each packet and link
//   threads  not safe
//   source   FRED (ISCA 2025), section 5; docs/network.md
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/network/flit/packet_fifo.h"
#include "pleach/network/flit/packet_line.h"
#include "pleach/network/flit/packet_places.h"
#include "pleach/network/flit/packet_pool.h"
#include "pleach/network/flit/packet_shape.h"
#include "pleach/network/flit/packet_way.h"
#include "pleach/network/flow/event_queue.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

class PacketNetwork {
 public:
  // Of a way, something that its owner waits for.
  struct Report {
    enum class What : uint8_t {
      kLeft,      // the last packet of a message has left all sources
      kArrived,   // the last packet of the earliest message is at all targets
      kPassed,    // all packets before the limit have passed a gate
      kSettled,   // where packets get lost: all that was sent has arrived, and none comes again
      kStill,     // it is closed, and nothing of it is passing any more
      kHopeless,  // it has gone back to one packet a few thousand times
      kDrained,   // all messages have arrived, and all credits are home
    };
    What what = What::kLeft;
    int32_t way = 0;
    int32_t gate = 0;  // of kPassed
  };
  struct Counts {
    int64_t packets = 0;         // that began to pass a link
    int64_t place_waits_ps = 0;  // links stood still because no packet had a place, summed
    int64_t deepest_buffer = 0;  // places taken at once
    int64_t control_packets = 0;
    int64_t control_waits_ps = 0;  // these waited because none of them had a place, summed
    int64_t deepest_control_buffer = 0;
    int64_t lost = 0;      // packets
    int64_t go_backs = 0;  // of streams
    int64_t timeouts = 0;  // of these, because nothing came
  };

  // Borrows the topology.
  PacketNetwork(const Topology& topology, const PacketShape& shape);

  // The next way is this one. Returns its gates: its junctions that are gated, in their order.
  std::vector<int32_t> add(const PacketWay& way, int32_t vc);

  // Whether there is a place of its own for it in all buffers on its way that are not in `taken`;
  // if not, these are added to `taken`.
  bool may_join(int32_t way, std::vector<std::size_t>& taken) const;
  void join(int32_t way);  // may_join()
  void quit(int32_t way);  // drained
  bool has_joined(int32_t way) const { return ways_[at(way)].has_joined; }
  // A message follows those before it; the last one has left its sources.
  void send(int32_t way, int64_t payload_bytes, int64_t now_ps);
  int64_t supplied(int32_t way) const { return ways_[at(way)].supplied; }  // packets
  // Packets from the limit on do not pass the gate; at first none does. Reports kPassed, at once or
  // later, where a limit above 0 is reached.
  void set_limit(int32_t gate, int64_t limit, int64_t now_ps);
  bool has_passed(int32_t gate) const {
    return junctions_[at(gate)].first == junctions_[at(gate)].limit;
  }
  // Nothing passes the gates until reopened. Reports kStill, at once or later.
  void close(int32_t way);
  void reopen(int32_t way, int64_t now_ps);
  bool is_still(int32_t way) const {
    return ways_[at(way)].is_closed && ways_[at(way)].passing == 0;
  }

  std::optional<int64_t> next_ps() {
    return events_.empty() ? std::nullopt : std::optional(events_.top().time_ps);
  }
  // All that happens at one time, but what begins then.
  void run(int64_t now_ps);
  // What begins at that time, when all of it has been told. Afterwards more may be due then.
  void begin(int64_t now_ps);
  // Since it was last asked.
  bool has_reports() const { return !reports_.empty(); }
  std::vector<Report> take_reports() { return std::exchange(reports_, {}); }

  std::vector<LinkUse> use() const;
  const Counts& counts() const { return control_.counts; }
  // What of places does not add up, in words; empty: all of it does.
  std::string inconsistency() const;

 private:
  // In the order in which those of one time are handled.
  enum class Kind : uint8_t { kLeft, kCame, kCredit, kReady, kControl, kControlCredit, kWatch };
  struct Flight {
    int64_t packet = 0;
    int32_t round = 0;
    bool is_lost = false;
    int64_t tail_ps = 0;  // when its last byte is there
  };
  struct Leg {
    int32_t way = 0, line = 0;
    int32_t from = PacketWay::kEnd, to = PacketWay::kEnd;  // junctions
    int64_t next = 0;                                      // packet that it carries next
    int64_t left = 0;                   // of a source: the first one that has not left yet
    int64_t expected = 0;               // and that comes to its end next
    int32_t nacked = -1;                // the last round in which one did not
    int32_t held = 0;                   // places behind the link
    bool has_ack = false;               // that waits to go back
    bool tells_all = false;             // packets of all sources pass it
    bool is_owed = false;               // the first of the places
    bool is_sending = false;            // from its first packet on until there are no more
    PacketFifo<int64_t> taken_ps = {};  // when, by place
    bool is_queued = false;             // waits for the link, or for its next packet's time
    PacketFifo<Flight> flying = {};
  };
  struct Held {  // a packet at a junction
    int32_t came = 0, left = 0;
    int64_t tail_ps = 0;
  };
  struct Junction {
    int32_t way = 0;
    std::vector<int32_t> inputs = {}, outputs = {};  // legs
    bool is_gated = false;
    int64_t limit = INT64_MAX;  // the first packet that may not pass
    int64_t first = 0;          // packet that is held
    int32_t round = 0;
    PacketFifo<Held> held = {};
  };
  struct Message {
    int64_t begin = 0, end = 0;     // packets
    int64_t last_bytes = 0;         // payload of the last one
    int32_t left = 0, arrived = 0;  // legs
  };
  struct Nack {
    int32_t way = 0;
    int64_t packet = 0;
    int32_t round = 0;    // in which it was missed
    int32_t sources = 0;  // that have not heard of it
  };
  struct Control {
    static constexpr int32_t kAck = -1;
    int32_t leg = 0;
    bool is_forward = false;  // or the way back
    int32_t nack = kAck;
  };
  struct Recovery {
    std::vector<int64_t> starts = {0};  // by round: its first packet
    int64_t timeout_ps = 0;
    int64_t accepted = 0, seen = 0;  // packets by targets; when it was last looked
    int32_t silent = 0;              // how often in a row there was no progress
    int32_t fruitless = 0;           // how often in a row it went back to a packet, or before it
    bool is_watched = false;
  };
  struct Way {
    int32_t vc = 0;
    std::vector<int32_t> legs = {}, sources = {}, gates = {};  // all; from sources; junctions
    int32_t target_count = 0;
    PacketFifo<Message> messages = {};  // since it has joined
    std::size_t arrived = 0;            // of these
    Recovery recovery = {};
    int64_t supplied = 0;  // packets
    int32_t passing = 0;   // links out of gates that it is on
    int32_t held = 0;      // places
    bool has_joined = false, is_closed = false;
  };

  PacketPlaces& places_of(const Leg& leg) {
    return places_[at(leg.line) * at(shape_.vcs) + at(ways_[at(leg.way)].vc)];
  }
  int64_t payload_bytes(const Way& way, int64_t packet) const;
  int64_t wire_bytes(const Leg& leg, int64_t packet) const {
    return payload_bytes(ways_[at(leg.way)], packet) + shape_.header_bytes;
  }
  bool has_packet(const Leg& leg) const;
  bool has_place(const Leg& leg, int64_t now_ps);
  bool has_all_arrived(const Way& way) const { return way.arrived == way.messages.size(); }
  void push(int64_t time_ps, Kind kind, int32_t number);
  void report(Report::What what, int32_t way, int32_t gate = 0) {
    reports_.push_back({what, way, gate});
  }
  void consider(int32_t leg, int64_t now_ps);
  void enqueue(int32_t leg);
  void touch(int32_t line);
  void came(int32_t leg, int64_t now_ps);
  bool accept(int32_t leg, const Flight& flight, int64_t now_ps);
  void arrived(Leg& leg, int64_t packet, int64_t now_ps);
  void mark_legs(const Way& way);
  void acknowledge(int32_t leg, int64_t now_ps);
  void miss(int32_t leg, int32_t round, int64_t now_ps);
  void tell(const Control& control, int64_t now_ps);
  void spread(int32_t nack, int32_t junction, int32_t from, int64_t now_ps);
  int32_t line_of(const Control& control) const;
  bool begin_control(int32_t line, int64_t now_ps);
  void told(int32_t control, int64_t now_ps);
  void continue_at(Leg& leg, int64_t packet);
  void restart(int32_t junction, int32_t round, int64_t first, int64_t now_ps);
  void go_back(int32_t way, int64_t packet, int64_t now_ps);
  void go_back_for(const Nack& nack, int64_t now_ps);
  void watch(int32_t way, int64_t now_ps);
  void forget_rest(int32_t way, int64_t now_ps);
  void left(int32_t line, int64_t now_ps);
  void settle(int32_t leg);
  void credit(int32_t leg);
  void begin_on(int32_t line, int64_t now_ps);
  void transmit(int32_t leg, int64_t now_ps);

  const PacketShape shape_;
  EventQueue events_;
  std::vector<PacketLine> lines_;     // by link
  std::vector<PacketPlaces> places_;  // by link and virtual channel
  std::vector<Leg> legs_;
  std::vector<Junction> junctions_;
  std::vector<Way> ways_;
  std::vector<int32_t> touched_;  // lines
  std::vector<Report> reports_;
  struct {
    Counts counts;
    Rng losses;
    PacketPool<Control> packets = {};  // under way
    PacketPool<Nack> nacks = {};
  } control_;
};

}  // namespace pleach
