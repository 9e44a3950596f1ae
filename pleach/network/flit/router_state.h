// RouterState: all that changes in a fabric, in flat arrays; and how its parts are numbered.
//
// Ports, VCs and masks are laid out alike for all routers, for as many ports as the largest has. A
// VC has a number in the whole fabric, and one at its router, port · vcs + vc, which is its bit in
// masks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/lane_wheel.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/time_wheel.h"

namespace pleach {

inline constexpr uint32_t kNone = UINT32_MAX;
// In the number of a VC: it is an interface's, interface · 64 + vc.
inline constexpr uint32_t kAtInterface = uint32_t{1} << 31;
inline constexpr uint32_t kMostVcs = 64;

struct RouterLayout {
  uint32_t routers = 0, interfaces = 0;
  uint32_t inputs = 0, outputs = 0;  // most ports of a router
  uint32_t vcs = 0, classes = 0;
  uint32_t input_words = 1;   // of a mask of input VCs
  uint32_t output_words = 1;  // of output ports
  uint32_t group_words = 1;   // of groups
  uint32_t ring = 1;          // places for packets of one VC, a power of two

  uint32_t input_vcs() const { return inputs * vcs; }
  uint32_t output_vcs() const { return outputs * vcs; }
  uint32_t groups() const { return outputs * classes; }
  // Whether all masks are single words.
  bool is_narrow() const {
    return input_words == 1 && output_words == 1 && group_words == 1 && output_vcs() <= 64;
  }
};

inline constexpr uint16_t kNoVc = UINT16_MAX;

// A VC at a router's input: its buffer, and what the packet in front has got so far.
struct alignas(32) InputVc {
  uint32_t router = 0;
  uint32_t front = 0;      // the packet in front, if there is one
  uint32_t remaining = 0;  // of it: flits that have not passed the switch
  int32_t priority = 0;    // of it
  uint16_t out = kNoVc;    // the output VC that it has, at the router
  uint16_t flits = 0;      // in the buffer
  uint16_t packets = 0;    // that have begun to arrive, up to the one whose tail has not left
  uint16_t first = 0;      // of them, in the ring
  uint16_t group = 0;      // that it asks, or has asked, for
  uint16_t accept = 0;     // where the search for an output VC begins
  uint16_t local = 0;
  bool has_head = false;  // that of the packet in front has not passed
  bool may_pass = false;  // it has a VC, and had it long enough to try the switch
};

// A VC at a router's output: what is known there of the buffer behind the channel.
struct OutputVc {
  uint32_t router = 0;
  uint16_t credits = 0;
  uint16_t owner = kNoVc;  // the input VC that has it, at the router
  uint16_t grant = 0;      // where the search for an input VC begins
  uint16_t output = 0;
  uint16_t group = 0;  // that it is a member of
  uint16_t vc = 0;
};

// When a channel may pass its next flit.
struct ChannelPace {
  FlitRate rate;
  int64_t next = 0;   // cycle
  int64_t early = 0;  // by how much less than `next` that is, in cycles / rate.flits

  // Takes note of a flit in `cycle` ≥ next.
  void pass(int64_t cycle) {
    const int64_t left = rate.cycles - (cycle == next ? early : rate.flits - 1);
    const int64_t wait = (left + rate.flits - 1) / rate.flits;
    early = wait * rate.flits - left;
    next = cycle + wait;
  }
};

// What is behind an output port, or in front of an interface.
struct ChannelStart {
  uint32_t target = 0;       // VC 0 of the input there
  uint32_t lane = 0;         // of flits: from the switch until one is there
  uint32_t channel = kNone;  // of the fabric; kNone: the port has none
  uint32_t pace = kNone;     // kNone: it passes a flit in every cycle
  int64_t flits = 0;         // that it has passed
};

struct OutputPort {
  ChannelStart channel;
  uint32_t grant = 0;  // where the search for an input VC begins
};

// Where the credits of an input's VCs go.
struct CreditPath {
  uint32_t target = 0;  // VC 0 of the output there
  uint32_t lane = 0;    // of credits
};

struct InputPort {
  CreditPath credits;
  uint32_t accept = 0;   // where the search for an output begins
  uint32_t next_vc = 0;  // where the search for one of its VCs begins
};

// An interface's side of its channel into the network.
struct FlitSource {
  ChannelStart channel;
  uint32_t front = kNone, back = kNone;  // of the queue, linked through Packets
  uint32_t remaining = 0;                // flits of the packet in front, still to be sent
  uint32_t vc = kNone;                   // that it has
  uint32_t last_vc = 0;
  int64_t queued = 0;  // flits supplied, of all packets
};

// Of a flit: number of the packet · 4 + these.
inline constexpr uint32_t kHeadFlit = 2, kTailFlit = 1;

// How many cycles VCs have been in some state, in all: summed up when they enter and leave it.
class StateTime {
 public:
  // One is in it from `cycle` on, if `is_entered`.
  void enter_if(int64_t cycle, bool is_entered) {
    sum_ -= is_entered ? cycle : 0;
    count_ += is_entered ? 1 : 0;
  }
  // One has been in it up to, and without, `cycle`.
  void leave_if(int64_t cycle, bool is_left) {
    sum_ += is_left ? cycle : 0;
    count_ -= is_left ? 1 : 0;
  }
  void add(int64_t cycles) { sum_ += cycles; }
  // Before `cycle`.
  int64_t until(int64_t cycle) const { return sum_ + count_ * cycle; }

 private:
  int64_t sum_ = 0;
  int64_t count_ = 0;  // of those in it
};

struct VcTimes {
  StateTime asking;   // heads
  StateTime starved;  // what has a VC and a flit, but no credit
  StateTime ready;    // and what has one
};

struct FlitArrival {
  uint32_t target = 0;  // VC
  uint32_t packet = 0;
};

// Sets of a router's VCs, ports and groups, all those of a router in one block of words.
struct RouterMasks {
  // Where each begins in a block.
  uint32_t outputs = 0;  // to which something is ready
  uint32_t open = 0;     // outputs whose channel may pass a flit
  uint32_t asked = 0;    // groups in which heads ask
  uint32_t free = 0;     // groups in which heads could get a VC
  uint32_t ready = 0;    // by output: input VCs that may pass to it now
  // By group: a word for its VCs, by number at the port, that heads could get; then input VCs
  // whose heads ask for one.
  uint32_t groups = 0;
  uint32_t group = 0;  // words of one
  uint32_t block = 0;  // and of all
  std::vector<uint64_t> words;
  std::vector<uint64_t> active;   // routers in which something may pass, or get a VC
  std::vector<uint64_t> sending;  // interfaces that may have a flit to send
};

// The kind of an event: whether an interface's VC has to do with it.
inline uint32_t side_of(uint32_t vc) {
  return vc >> 31U;
}
inline constexpr std::size_t kRouters = 0, kInterfaces = 1;

// A head that asks for a VC.
struct HeadAsk {
  uint32_t input = 0;  // VC
  uint32_t packet = 0;
};

struct RouterEvents {
  LaneWheel<FlitArrival> flits;  // by side
  LaneWheel<uint32_t> credits;   // output VC, by side
  LaneWheel<HeadAsk> asks;       // who asks from then on
  LaneWheel<uint32_t> passes;    // input VC that tries the switch from then on
  TimeWheel<uint32_t> openings;  // output port, or interface, whose channel may pass a flit again
  uint32_t arrival_ask = 0;      // lanes of asks: after a head's arrival,
  uint32_t next_ask = 0;         // and after the tail before it has passed
};

struct RouterState {
  RouterOptions options;
  RouterLayout layout;
  std::vector<InputVc> inputs;
  std::vector<OutputVc> outputs;
  std::vector<uint32_t> rings;  // by input VC, packets in the order of arrival
  std::vector<InputPort> input_ports;
  std::vector<OutputPort> output_ports;
  std::vector<FlitSource> sources;
  std::vector<uint32_t> source_credits;  // by interface and VC
  std::vector<CreditPath> sinks;         // by interface
  std::vector<ChannelPace> paces;
  RouterMasks masks;
  RouterEvents events;
  VcTimes times;
};

inline const uint64_t* block_of(const RouterState& state, uint32_t router) {
  return &state.masks.words[at(router) * state.masks.block];
}
inline const uint64_t& free_vcs_of(const RouterState& state, uint32_t router, uint32_t group) {
  return block_of(state, router)[state.masks.groups + group * state.masks.group];
}
// What a VC must have for any head to get it [flits].
inline uint32_t least_room(const RouterOptions& options) {
  return static_cast<uint32_t>(std::min(options.room, options.shortest_packet));
}
// Errors: those of Routers::create.
Result<RouterState> make_router_state(const Fabric& fabric, const RouterOptions& options);

std::vector<int64_t> channel_flits(const RouterState& state);
std::vector<VcWait> find_deadlock(const RouterState& state);
std::string find_inconsistency(const RouterState& state);

}  // namespace pleach
