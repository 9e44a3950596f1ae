// SteadySearch: finds packets whose next cycles are all alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/router_state.h"

namespace pleach {

// A router that a stream passes.
struct SteadyStage {
  uint32_t input = 0;  // VC
  uint32_t port = 0;   // output
  bool is_ready = false;
};
struct SteadyStream {
  uint32_t interface = 0;
  uint32_t sink = 0;  // the interface that it comes out of · 64 + its VC there
  int64_t begin = 0;  // the first cycle that is not counted
  int64_t limit = 0;  // the first one that must be
  bool is_met = false;
  std::vector<SteadyStage> stages;
};

// A packet is steady when in each of the last `window` cycles, as many as a flit and its credit are
// on their way at most, one of its body flits has passed every channel from its interface to its
// target's, and no other packet has or asks for a VC of these channels. Then the next cycle is like
// the last one, as is every cycle until its interface has no more than its tail to send or a head
// asks for one of the channels.
//   PacketSet  Packets
template <typename PacketSet>
class SteadySearch {
 public:
  // Borrows both.
  SteadySearch(const RouterState& state, const PacketSet& packets) : s_(state), packets_(packets) {
    window_ = std::max<int64_t>(64, s_.events.flits.size() + s_.events.credits.size());
    last_.inputs.resize(s_.inputs.size());
    last_.sources.resize(s_.sources.size());
    due_ = window_;
  }

  // The cycle before which the next search finds something.
  int64_t due() const { return due_; }
  // Before cycle `now` ≥ due(). Calls found(stream) for the steady packets of interfaces that
  // wanted(interface) says; none when `now` is later than due.
  //   cost  O(VCs, interfaces)
  template <typename Wanted, typename Found>
  void run(int64_t now, Wanted wanted, Found found) {
    for (uint32_t interface = 0; now == due_ && interface < s_.sources.size(); ++interface) {
      SteadyStream stream;
      stream.interface = interface;
      stream.begin = now;
      if (wanted(static_cast<int32_t>(interface)) && is_steady(stream)) {
        found(std::move(stream));
      }
    }
    for (std::size_t input = 0; input < s_.inputs.size(); ++input) {
      last_.inputs[input] = s_.inputs[input].remaining;
    }
    for (std::size_t interface = 0; interface < s_.sources.size(); ++interface) {
      last_.sources[interface] = s_.sources[interface].remaining;
    }
    due_ = now + window_;
  }

  // The first cycle in which its interface has no more than the tail to send, or nothing supplied.
  int64_t limit_of(const FlitSource& source, int64_t begin) const {
    const auto& packet = packets_.header(source.front);
    return begin + std::min<int64_t>(source.remaining - 1, packet.supplied);
  }

 private:
  // Whether the packet in front of the stream's interface is steady. Follows it through routers.
  bool is_steady(SteadyStream& stream) const {
    const FlitSource& source = s_.sources[stream.interface];
    // A packet that began later has more left.
    const auto has_passed_always = [&](uint32_t before, uint32_t remaining) {
      return int64_t{before} - remaining == window_;
    };
    if (source.front == kNone || source.vc == kNone || source.channel.pace != kNone ||
        !has_passed_always(last_.sources[stream.interface], source.remaining)) {
      return false;
    }
    stream.limit = limit_of(source, stream.begin);
    uint32_t next = source.channel.target + source.vc;
    while (side_of(next) == kRouters) {
      const InputVc& vc = s_.inputs[next];
      if (vc.front != source.front || vc.packets != 1 || !vc.may_pass || vc.has_head ||
          !has_passed_always(last_.inputs[next], vc.remaining) || !is_alone_at_input(vc, next)) {
        return false;
      }
      const OutputVc& out = s_.outputs[at(vc.router) * s_.layout.output_vcs() + vc.out];
      const uint32_t port = vc.router * s_.layout.outputs + out.output;
      const ChannelStart& channel = s_.output_ports[port].channel;
      if (channel.pace != kNone || !is_alone_at_output(vc, out)) {
        return false;
      }
      stream.stages.push_back({next, port, vc.flits > 0 && out.credits > 0});
      next = channel.target + out.vc;
    }
    stream.sink = next & ~kAtInterface;
    return stream.limit > stream.begin + window_ / 8;
  }

  bool is_alone_at_input(const InputVc& vc, uint32_t input) const {
    const uint32_t first = input - vc.local % s_.layout.vcs;
    for (uint32_t other = first; other < first + s_.layout.vcs; ++other) {
      if (other != input && (s_.inputs[other].packets > 0 || s_.inputs[other].flits > 0)) {
        return false;
      }
    }
    return true;
  }

  bool is_alone_at_output(const InputVc& vc, const OutputVc& out) const {
    const uint32_t first = out.output * s_.layout.vcs;
    for (uint32_t other = first; other < first + s_.layout.vcs; ++other) {
      const uint16_t owner = s_.outputs[at(vc.router) * s_.layout.output_vcs() + other].owner;
      if (other != vc.out && owner != kNoVc) {
        return false;
      }
    }
    const uint64_t* block = block_of(s_, vc.router);
    const uint32_t group = out.output * s_.layout.classes;
    for (uint32_t i = group; i < group + s_.layout.classes; ++i) {
      const uint64_t* asking = block + s_.masks.groups + i * s_.masks.group + 1;
      if (Bits<false>::any(asking, s_.layout.input_words)) {
        return false;
      }
    }
    return true;
  }

  const RouterState& s_;
  const PacketSet& packets_;
  int64_t window_ = 0;
  int64_t due_ = 0;
  struct {
    std::vector<uint32_t> inputs, sources;  // flits that were left at the last search
  } last_;
};

}  // namespace pleach
