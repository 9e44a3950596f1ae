// Routers: input-queued virtual-channel routers with credits, cycle by cycle.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/network/flit/fabric.h"

namespace pleach {

struct RouterOptions {
  int32_t vcs = 4;     // virtual channels of a channel, 1 to 64
  int32_t buffer = 8;  // flits that one of them holds, 1 to 32767
  // VC v belongs to class v · classes / vcs: packets say for each hop which class they need. (At an
  // interface's port all VCs are one class.)
  int32_t classes = 1;
  int32_t routing_delay = 1;  // from a head at the front of its VC to its request for the next VC
  int32_t vc_delay = 1;       // from there to its first try to pass the switch, ≥ 1
  int32_t switch_delay = 1;   // from there to the crossbar, ≥ 1
  int32_t credit_delay = 0;   // from a credit's arrival at a router until it counts
  int32_t iterations = 1;     // of both allocators
  bool by_priority = false;   // among the VCs of an input, at the switch: the smallest priority
  // A head gets a VC only if so many flits, or the whole packet where that is shorter, have room
  // behind it; 0: it need not have any.
  int32_t room = 1;
  int32_t shortest_packet = 1;  // of those offered [flits]
  // Where a long packet's flits pass one in every cycle and nothing meets them, takes many cycles
  // at once: all is as it would be, but that these body flits are not reported, and that counts lag
  // behind until settle().
  bool takes_steady_cycles_together = false;
};

// Of a packet while it is in the network; then numbers are used again.
using PacketNumber = uint32_t;

// A flit that an interface has taken.
struct FlitDelivery {
  int32_t interface = 0;
  PacketNumber packet = 0;
  bool head = false;
  bool tail = false;  // the last one: the packet is over
};

struct RouterCounts {
  int64_t vc_grants = 0;
  int64_t buffer_writes = 0;  // flits that came to a router
  int64_t switch_grants = 0;  // flits that were read from a buffer there and passed the crossbar
  int64_t flits_sent = 0;     // by interfaces
  int64_t flits_delivered = 0;
  int64_t deepest_buffer = 0;  // the most flits that a VC of a router has held
  // Cycles, of all VCs together, in which what is in front of one asks for a VC and gets none; has
  // a VC and a flit, but no credit; has all three, but another passes, or the channel is closed.
  int64_t vc_stalls = 0;
  int64_t credit_stalls = 0;
  int64_t switch_stalls = 0;
  bool operator==(const RouterCounts&) const = default;
};

// What a packet at the front of its VC waits for.
struct VcWait {
  int32_t router = 0;
  int32_t input = 0;  // port
  int32_t vc = 0;
  int32_t output = 0;
};

// A fabric in which packets are under way. In cycle t
//   1. what is due arrives: flits in buffers or at interfaces, credits where they were spent. An
//      interface takes a flit at once and gives its credit back.
//   2. heads get VCs, flits get the switch, and interfaces send a flit each.
// A head that arrives at a in an idle VC asks for a VC from a + routing_delay on, as does one that
// was behind another packet, whose tail passed the switch in a - 1. It gets a VC in some v, and its
// flits try the switch from v + vc_delay on; a flit that passes it in t is at the other end of a
// channel of latency L in t + 1 + switch_delay + L, and as much later as that channel's router
// takes for passing_cycles. Its credit is back upstream in t + 1 + L. A VC may be given away again
// in the cycle after its tail passed the switch. What an interface sends in t is at its router in t
// + 1 + L; its credits count at once. Allocators are separable, with rotating priority: each output
// (VC or port) chooses a requester, each requester accepts one of the outputs that chose it, and
// only what was accepted in the first iteration moves pointers, past it. At the switch, ports
// compete; of an input's VCs for one output the next one after the last that passed wins, or, by
// priority, the smallest.
//   cost     per cycle O(what moves or may move): routers in which nothing can are not visited
//   threads  not safe; several are independent
//   source   Dally, Virtual-channel flow control, 1992; McKeown, iSLIP, 1999
class Routers {
 public:
  // Borrows nothing.
  // Errors: kInvalidArgument: an option out of range; more than 65536 output ports × classes of a
  // router, or 65535 VCs of its ports one way.
  static Result<std::unique_ptr<Routers>> create(const Fabric& fabric,
                                                 const RouterOptions& options);
  virtual ~Routers() = default;

  // The cycle that is under way between begin_cycle() and end_cycle(), else the next one.
  virtual int64_t now() const = 0;
  virtual void begin_cycle() = 0;
  virtual void end_cycle() = 0;
  // The first cycle ≥ now() in which anything happens by itself, or nothing: all waits for packets,
  // if there are any, and if there are none for ever.
  virtual std::optional<int64_t> next_cycle() const = 0;
  // Goes on to `cycle`, which is no later than next_cycle(), between cycles.
  virtual void skip_to(int64_t cycle) = 0;

  // Of the cycle under way, from begin_cycle() on.
  virtual std::span<const FlitDelivery> delivered() const = 0;
  // Interfaces that sent the last flit of their queue in the last end_cycle().
  virtual std::span<const int32_t> drained() const = 0;

  struct Packet {
    std::span<const uint16_t> hops = {};  // hops_of()
    int32_t length = 1;                   // flits
    int32_t supplied = 1;                 // of these, how many may be sent already
    int32_t priority = 0;
  };
  // Puts a packet behind those in an interface's queue. It may be sent from the next end_cycle()
  // on.
  virtual PacketNumber offer(int32_t interface, const Packet& packet) = 0;
  // Allows that many more flits of a packet in that queue to be sent.
  virtual void supply(int32_t interface, PacketNumber packet, int32_t flits) = 0;
  // Flits supplied and not yet sent.
  virtual int64_t queued_flits(int32_t interface) const = 0;

  // Between cycles: writes out what has been taken together, so that all that follows is up to
  // date.
  virtual void settle() = 0;
  virtual int64_t live_packets() const = 0;
  // Between cycles.
  virtual RouterCounts counts() const = 0;
  // Flits that passed each channel of the fabric.
  virtual std::vector<int64_t> channel_flits() const = 0;

  // Packets that can never go on, as each waits for one that waits: a cycle of such waits, in
  // order; empty: there is none. Between cycles.   cost  O(VCs · the longest chain of waits)
  virtual std::vector<VcWait> deadlock() const = 0;
  // Whether each VC's credits, its flits in the buffer and on the way, and its credits on the way
  // are as many as the buffer holds, and the masks agree with what they stand for; what does not,
  // in words. Between cycles.   cost  O(VCs + what is on the way)
  virtual std::string inconsistency() const = 0;
};

}  // namespace pleach
