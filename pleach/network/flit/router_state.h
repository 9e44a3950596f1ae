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
#include "pleach/network/flit/packets.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/time_wheel.h"

namespace pleach {

inline constexpr uint32_t kNone = UINT32_MAX;
// In the number of a VC: it is an interface's, interface · vcs + vc.
inline constexpr uint32_t kAtInterface = uint32_t{1} << 31;

struct RouterLayout {
  uint32_t routers = 0, interfaces = 0;
  uint32_t inputs = 0, outputs = 0;  // most ports of a router
  uint32_t vcs = 0, classes = 0;
  uint32_t input_words = 1;   // of a mask of input VCs
  uint32_t output_words = 1;  // of output ports
  uint32_t group_words = 1;   // of groups: output · classes + class
  uint32_t ring = 1;          // places for packets of one VC, a power of two

  uint32_t input_vcs() const { return inputs * vcs; }
  uint32_t output_vcs() const { return outputs * vcs; }
  uint32_t groups() const { return outputs * classes; }
  // Whether all masks are single words.
  bool is_narrow() const { return input_words == 1 && output_words == 1 && group_words == 1; }
};

// A VC at a router's input: its buffer, and what the packet in front has got so far.
struct alignas(32) InputVc {
  uint32_t router = 0;
  uint32_t remaining = 0;  // of the packet in front: flits that have not passed the switch
  uint32_t out = kNone;    // the output VC that it has, in the fabric
  uint16_t flits = 0;      // in the buffer
  uint16_t local = 0;
  uint16_t port = 0;
  uint16_t group = 0;      // that it asks, or has asked, for
  uint16_t first = 0;      // of the ring of packets
  uint16_t packets = 0;    // in it
  uint16_t accept = 0;     // where the search for an output VC begins
  uint8_t vc = 0;          // of the port
  bool may_pass = false;   // it has a VC, and had it long enough to try the switch
  bool has_begun = false;  // its head has passed
};

// A VC at a router's output: what is known there of the buffer behind the channel.
struct OutputVc {
  uint32_t router = 0;
  uint16_t credits = 0;
  uint16_t owner = 0;  // the input VC that has it, at the router; kFree
  uint16_t grant = 0;  // where the search for an input VC begins
  uint16_t output = 0;
  uint16_t group = 0;  // that it is a member of
  uint16_t vc = 0;
};
inline constexpr uint16_t kFree = UINT16_MAX;

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
  uint32_t delay = 0;        // from the switch until a flit is there
  uint32_t channel = kNone;  // of the fabric; kNone: the port has none
  uint32_t pace = kNone;     // kNone: it passes a flit in every cycle
  int64_t flits = 0;         // that it has passed
};

// Where the credits of an input's VCs go.
struct CreditPath {
  uint32_t target = 0;  // VC 0 of the output there
  uint32_t delay = 0;
};

struct InputPort {
  CreditPath credits;
  uint16_t accept = 0;   // where the search for an output begins
  uint16_t next_vc = 0;  // where the search for one of its VCs begins
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

struct FlitArrival {
  uint32_t target = 0;  // input VC
  uint32_t packet = 0;  // number · 4 + head · 2 + tail
};

// Sets of a router's VCs, ports and groups, all those of a router in one block of words.
struct RouterMasks {
  // Where each begins in a block.
  uint32_t outputs = 0;  // that are open, and to which something is ready
  uint32_t groups = 0;   // in which somebody asks and something is free
  uint32_t closed = 0;   // outputs whose channel must not pass a flit yet
  uint32_t free = 0;     // by group, one word: its VCs, by number at the port, that heads could get
  uint32_t asking = 0;   // by group: input VCs whose heads ask for one of them
  uint32_t ready = 0;    // by output: input VCs that may pass to it now
  uint32_t block = 0;    // words of all
  std::vector<uint64_t> words;
  std::vector<uint64_t> active;   // routers with outputs or groups such as these
  std::vector<uint64_t> sending;  // interfaces that may have a flit to send
};

struct RouterEvents {
  TimeWheel<FlitArrival> flits;
  TimeWheel<uint32_t> credits;   // output VC
  TimeWheel<uint32_t> asks;      // input VC whose head asks from then on
  TimeWheel<uint32_t> passes;    // input VC that tries the switch from then on
  TimeWheel<uint32_t> openings;  // output port, or interface, whose channel may pass a flit again
};

struct RouterState {
  RouterOptions options;
  RouterLayout layout;
  std::vector<InputVc> inputs;
  std::vector<OutputVc> outputs;
  std::vector<uint32_t> rings;  // by input VC, packets in the order of arrival
  std::vector<InputPort> input_ports;
  std::vector<ChannelStart> output_ports;
  std::vector<uint16_t> output_grants;  // by output port: where the search for an input VC begins
  std::vector<FlitSource> sources;
  std::vector<uint32_t> source_credits;  // by interface and VC
  std::vector<CreditPath> sinks;         // by interface
  std::vector<ChannelPace> paces;
  RouterMasks masks;
  RouterEvents events;
  Packets packets;
};

inline const uint64_t* block_of(const RouterState& state, uint32_t router) {
  return &state.masks.words[at(router) * state.masks.block];
}
// What a VC must have for any head to get it [flits].
inline uint32_t least_room(const RouterOptions& options) {
  return static_cast<uint32_t>(std::min(options.room, options.shortest_packet));
}
// The packet that an input VC, which has one, has in front.
inline uint32_t front_packet(const RouterState& state, uint32_t input) {
  return state.rings[at(input) * state.layout.ring + state.inputs[input].first];
}

// Errors: those of Routers::create.
Result<RouterState> make_router_state(const Fabric& fabric, const RouterOptions& options);

std::vector<VcWait> find_deadlock(const RouterState& state);
std::string find_inconsistency(const RouterState& state);

}  // namespace pleach
