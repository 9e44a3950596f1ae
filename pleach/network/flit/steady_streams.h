// SteadyStreams: long packets whose flits nothing meets, taken through many cycles at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/router_state.h"
#include "pleach/network/flit/routers.h"

namespace pleach {

// A packet is steady when in each of the last `window` cycles, as many as anything is on its way at
// most, one of its body flits has passed every channel from its interface to its target's, and no
// other packet has or asks for a VC of these channels. Then the next cycle is like the last one, as
// is every cycle until its interface has no more than its tail to send or a head asks for one of
// the channels. Until then its flits and credits are taken out of the events, and it counts
// nothing; what has happened meanwhile is written where it belongs in one go.
//   PacketSet  Packets
//   cost       O(channels) per window, and O(events) where some become steady
template <typename PacketSet>
class SteadyStreams {
 public:
  // Borrows all.
  SteadyStreams(RouterState& state, PacketSet& packets, RouterCounts& counts)
      : s_(state), packets_(packets), counts_(counts) {
    if (!s_.options.takes_steady_cycles_together) {
      return;
    }
    window_ = std::max<int64_t>(64, s_.events.flits.size());
    window_ = std::max<int64_t>(window_, s_.events.credits.size());
    scan_.due = window_;
    scan_.inputs.resize(s_.inputs.size());
    scan_.sources.resize(s_.sources.size());
    held_.inputs.resize(s_.inputs.size());
    held_.outputs.resize(s_.outputs.size());
    held_.sinks.resize(s_.sources.size() * kMostVcs);
    held_.sources.resize(s_.sources.size() * kMostVcs);
    held_.ports.assign(s_.output_ports.size(), kNone);
    held_.stream_of.assign(s_.sources.size(), kNone);
  }

  // Between cycles, before the events of cycle `now`.
  void update(int64_t now) {
    if (now < due_ && now < scan_.due) {
      return;
    }
    release_if(now, [&](const Stream& stream) { return stream.is_met || stream.limit <= now; });
    if (now >= scan_.due && window_ > 0) {
      scan(now);
    }
    set_due();
  }
  void release_all(int64_t now) {
    release_if(now, [](const Stream&) { return true; });
    set_due();
  }
  // The cycle before whose events update() must be called; INT64_MAX: none.
  int64_t due() const { return due_; }

  // In cycle `now` a head asks for a VC of a router's port: from the next cycle on the port's
  // stream is no longer steady.
  void meet(std::size_t port) {
    if (window_ > 0 && held_.ports[port] != kNone) {
      streams_[held_.ports[port]].is_met = true;
      due_ = 0;
    }
  }
  // Flits that an interface's packet has sent without being counted, up to cycle `now`.
  int64_t uncounted(int32_t interface, int64_t now) const {
    const uint32_t stream = window_ > 0 ? held_.stream_of[at(interface)] : kNone;
    return stream == kNone ? 0 : now - streams_[stream].begin;
  }
  bool holds(int32_t interface) const {
    return window_ > 0 && held_.stream_of[at(interface)] != kNone;
  }
  // The interface may send more of the packet than was known.
  void extend(int32_t interface) {
    Stream& stream = streams_[held_.stream_of[at(interface)]];
    stream.limit = limit_of(s_.sources[at(interface)], stream.begin);
  }

 private:
  // A router that a stream passes.
  struct Stage {
    uint32_t input = 0;  // VC
    uint32_t port = 0;   // output
    bool is_ready = false;
  };
  struct Stream {
    uint32_t interface = 0;
    uint32_t sink = 0;  // the interface that it comes out of · 64 + its VC there
    int64_t begin = 0;  // the first cycle that is not counted
    int64_t limit = 0;  // the first one that must be
    bool is_met = false;
    std::vector<Stage> stages;
  };

  int64_t limit_of(const FlitSource& source, int64_t begin) const {
    const auto& packet = packets_.header(source.front);
    return begin + std::min<int64_t>(source.remaining - 1, packet.supplied);
  }
  void set_due() {
    due_ = INT64_MAX;
    for (const Stream& stream : streams_) {
      due_ = std::min(due_, stream.limit);
    }
  }

  void scan(int64_t now) {
    const std::size_t before = streams_.size();
    for (uint32_t interface = 0; interface < s_.sources.size(); ++interface) {
      Stream stream;
      stream.interface = interface;
      stream.begin = now;
      if (!holds(static_cast<int32_t>(interface)) && now == scan_.due && is_steady(stream)) {
        streams_.push_back(std::move(stream));
      }
    }
    for (std::size_t i = before; i < streams_.size(); ++i) {
      hold(static_cast<uint32_t>(i));
    }
    if (streams_.size() > before) {
      take_out();
    }
    for (std::size_t input = 0; input < s_.inputs.size(); ++input) {
      scan_.inputs[input] = s_.inputs[input].remaining;
    }
    for (std::size_t interface = 0; interface < s_.sources.size(); ++interface) {
      scan_.sources[interface] = s_.sources[interface].remaining;
    }
    scan_.due = now + window_;
  }

  // Whether the packet in front of the stream's interface is steady. Follows it through routers.
  bool is_steady(Stream& stream) const {
    const FlitSource& source = s_.sources[stream.interface];
    // A packet that began later has more left.
    const auto has_passed_always = [&](uint32_t before, uint32_t remaining) {
      return int64_t{before} - remaining == window_;
    };
    if (source.front == kNone || source.vc == kNone || source.channel.pace != kNone ||
        !has_passed_always(scan_.sources[stream.interface], source.remaining)) {
      return false;
    }
    stream.limit = limit_of(source, stream.begin);
    uint32_t next = source.channel.target + source.vc;
    while (side_of(next) == kRouters) {
      const InputVc& vc = s_.inputs[next];
      if (vc.front != source.front || vc.packets != 1 || !vc.may_pass || vc.head != 0 ||
          !has_passed_always(scan_.inputs[next], vc.remaining) || !is_alone_at_input(vc, next)) {
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
    const uint32_t first = input - vc.vc;
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

  // From now on nothing of it is looked at.
  void hold(uint32_t number) {
    const Stream& stream = streams_[number];
    held_.stream_of[stream.interface] = number;
    mark(stream, true);
    Bits<false>::clear(s_.masks.sending.data(), stream.interface);
    for (const Stage& stage : stream.stages) {
      held_.ports[stage.port] = number;
      set_ready(stage, false);
    }
  }

  void set_ready(const Stage& stage, bool value) {
    const InputVc& vc = s_.inputs[stage.input];
    const uint32_t output = stage.port % s_.layout.outputs;
    uint64_t* block = &s_.masks.words[at(vc.router) * s_.masks.block];
    uint64_t* ready = block + s_.masks.ready + output * s_.layout.input_words;
    if (value) {
      Bits<false>::set(ready, vc.local);
      Bits<false>::set(block + s_.masks.outputs, output);
      Bits<false>::set(s_.masks.active.data(), vc.router);
    } else {
      Bits<false>::clear(ready, vc.local);
      if (!Bits<false>::any(ready, s_.layout.input_words)) {
        Bits<false>::clear(block + s_.masks.outputs, output);
      }
    }
  }

  // Whether what is under way to these belongs to a stream.
  void mark(const Stream& stream, bool value) {
    const FlitSource& source = s_.sources[stream.interface];
    held_.sources[at(stream.interface) * kMostVcs + source.vc] = value;
    held_.sinks[stream.sink] = value;
    for (const Stage& stage : stream.stages) {
      const InputVc& vc = s_.inputs[stage.input];
      held_.inputs[stage.input] = value;
      held_.outputs[at(vc.router) * s_.layout.output_vcs() + vc.out] = value;
    }
  }

  void take_out() {
    s_.events.flits.remove_if(kRouters,
                              [&](const FlitArrival& flit) { return held_.inputs[flit.target]; });
    s_.events.flits.remove_if(kInterfaces, [&](const FlitArrival& flit) {
      return held_.sinks[flit.target & ~kAtInterface];
    });
    s_.events.credits.remove_if(kRouters, [&](uint32_t target) { return held_.outputs[target]; });
    s_.events.credits.remove_if(
        kInterfaces, [&](uint32_t target) { return held_.sources[target & ~kAtInterface]; });
  }

  template <typename Ends>
  void release_if(int64_t now, Ends ends) {
    for (std::size_t i = 0; i < streams_.size();) {
      if (!ends(streams_[i])) {
        ++i;
        continue;
      }
      release(streams_[i], now);
      if (i + 1 < streams_.size()) {
        streams_[i] = std::move(streams_.back());
        held_.stream_of[streams_[i].interface] = static_cast<uint32_t>(i);
        for (const Stage& stage : streams_[i].stages) {
          held_.ports[stage.port] = static_cast<uint32_t>(i);
        }
      }
      streams_.pop_back();
    }
  }

  // Writes what it has done from its beginning to the cycle before `now`.
  void release(const Stream& stream, int64_t now) {
    const int64_t cycles = now - stream.begin;
    FlitSource& source = s_.sources[stream.interface];
    held_.stream_of[stream.interface] = kNone;
    mark(stream, false);
    source.remaining -= static_cast<uint32_t>(cycles);
    source.queued -= cycles;
    source.channel.flits += cycles;
    packets_.header(source.front).supplied -= static_cast<uint32_t>(cycles);
    counts_.flits_sent += cycles;
    counts_.flits_delivered += cycles;
    Bits<false>::set(s_.masks.sending.data(), stream.interface);
    put_flits(source.channel, source.vc, source.front, now);
    CreditPath credits{};
    for (const Stage& stage : stream.stages) {
      InputVc& vc = s_.inputs[stage.input];
      const OutputVc& out = s_.outputs[at(vc.router) * s_.layout.output_vcs() + vc.out];
      ChannelStart& channel = s_.output_ports[stage.port].channel;
      held_.ports[stage.port] = kNone;
      vc.remaining -= static_cast<uint32_t>(cycles);
      channel.flits += cycles;
      counts_.switch_grants += cycles;
      counts_.buffer_writes += cycles;
      if (!stage.is_ready) {  // but is in each of these cycles, from their beginning
        s_.times.ready.add(cycles);
        s_.times.starved.add(vc.flits > 0 ? -cycles : 0);
      }
      put_flits(channel, out.vc, source.front, now);
      credits = s_.input_ports[at(vc.router) * s_.layout.inputs + vc.port].credits;
      put_credits(credits, vc.vc, now);
      if (stage.is_ready) {
        set_ready(stage, true);
      }
    }
    put_credits(s_.sinks[stream.sink / kMostVcs], stream.sink % kMostVcs, now);
  }

  // One of each cycle's are on their way.
  void put_flits(const ChannelStart& channel, uint32_t vc, uint32_t packet, int64_t now) {
    const int32_t delay = s_.events.flits.delay_of(channel.lane);
    for (int32_t i = 0; i < delay; ++i) {
      s_.events.flits.put(side_of(channel.target), now + i, {channel.target + vc, packet << 2U});
    }
  }
  void put_credits(const CreditPath& path, uint32_t vc, int64_t now) {
    const int32_t delay = s_.events.credits.delay_of(path.lane);
    for (int32_t i = 0; i < delay; ++i) {
      s_.events.credits.put(side_of(path.target), now + i, path.target + vc);
    }
  }

  struct Scan {
    int64_t due = INT64_MAX;
    std::vector<uint32_t> inputs, sources;  // flits that were left at the last one
  };
  struct Held {
    std::vector<bool> inputs, outputs;  // VCs
    std::vector<bool> sources, sinks;   // VCs of interfaces, 64 each
    std::vector<uint32_t> ports;        // by output port: its stream
    std::vector<uint32_t> stream_of;    // by interface
  };

  RouterState& s_;
  PacketSet& packets_;
  RouterCounts& counts_;
  int64_t window_ = 0;  // 0: nothing is taken together
  int64_t due_ = INT64_MAX;
  Scan scan_;
  Held held_;
  std::vector<Stream> streams_;
};

}  // namespace pleach
