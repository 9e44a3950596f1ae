// SteadyStreams: long packets whose flits nothing meets, taken through many cycles at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/router_state.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/steady_search.h"

namespace pleach {

// While a packet is steady its flits and credits are taken out of the events, and it counts
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
    search_.emplace(state, packets);
    held_.inputs.resize(s_.inputs.size());
    held_.outputs.resize(s_.outputs.size());
    held_.sinks.resize(s_.sources.size() * kMostVcs);
    held_.sources.resize(s_.sources.size() * kMostVcs);
    held_.ports.assign(s_.output_ports.size(), kNone);
    held_.stream_of.assign(s_.sources.size(), kNone);
  }

  // Between cycles, before the events of cycle `now`.
  void update(int64_t now) {
    if (now < due_ && (!search_.has_value() || now < search_->due())) {
      return;
    }
    release_if(now, [&](const Stream& stream) { return stream.is_met || stream.limit <= now; });
    if (search_.has_value() && now >= search_->due()) {
      find(now);
    }
    set_due();
  }
  void release_all(int64_t now) {
    release_if(now, [](const Stream&) { return true; });
    set_due();
  }
  // The cycle before whose events update() must be called; INT64_MAX: none.
  int64_t due() const { return due_; }

  // In cycle `now` a head asks for a VC of a router's group: from the next cycle on the stream of
  // its port is no longer steady.
  void meet(uint32_t router, uint32_t group) {
    if (!search_.has_value()) {
      return;
    }
    const uint32_t stream = held_.ports[at(router) * s_.layout.outputs + group / s_.layout.classes];
    if (stream != kNone) {
      streams_[stream].is_met = true;
      due_ = 0;
    }
  }
  // Flits that an interface's packet has sent without being counted, up to cycle `now`.
  int64_t uncounted(int32_t interface, int64_t now) const {
    const uint32_t stream = search_.has_value() ? held_.stream_of[at(interface)] : kNone;
    return stream == kNone ? 0 : now - streams_[stream].begin;
  }
  bool holds(int32_t interface) const {
    return search_.has_value() && held_.stream_of[at(interface)] != kNone;
  }
  // The interface may send more of the packet than was known.
  void extend(int32_t interface) {
    Stream& stream = streams_[held_.stream_of[at(interface)]];
    stream.limit = search_->limit_of(s_.sources[at(interface)], stream.begin);
  }

 private:
  using Stream = SteadyStream;

  void find(int64_t now) {
    const std::size_t before = streams_.size();
    search_->run(
        now, [this](int32_t interface) { return !holds(interface); },
        [this](Stream stream) { streams_.push_back(std::move(stream)); });
    for (std::size_t i = before; i < streams_.size(); ++i) {
      hold(static_cast<uint32_t>(i));
    }
    if (streams_.size() > before) {
      take_out();
    }
  }
  void set_due() {
    due_ = INT64_MAX;
    for (const Stream& stream : streams_) {
      due_ = std::min(due_, stream.limit);
    }
  }

  // From now on nothing of it is looked at.
  void hold(uint32_t number) {
    const Stream& stream = streams_[number];
    held_.stream_of[stream.interface] = number;
    mark(stream, true);
    Bits<false>::clear(s_.masks.sending.data(), stream.interface);
    for (const SteadyStage& stage : stream.stages) {
      held_.ports[stage.port] = number;
      set_ready(stage, false);
    }
  }

  void set_ready(const SteadyStage& stage, bool value) {
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
    for (const SteadyStage& stage : stream.stages) {
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
        for (const SteadyStage& stage : streams_[i].stages) {
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
    for (const SteadyStage& stage : stream.stages) {
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
      const uint32_t vcs = s_.layout.vcs;
      credits = s_.input_ports[at(vc.router) * s_.layout.inputs + vc.local / vcs].credits;
      put_credits(credits, vc.local % vcs, now);
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

  struct Held {
    std::vector<bool> inputs, outputs;  // VCs
    std::vector<bool> sources, sinks;   // VCs of interfaces, 64 each
    std::vector<uint32_t> ports;        // by output port: its stream
    std::vector<uint32_t> stream_of;    // by interface
  };

  RouterState& s_;
  PacketSet& packets_;
  RouterCounts& counts_;
  int64_t due_ = INT64_MAX;
  std::optional<SteadySearch<PacketSet>> search_;  // none: nothing is taken together
  Held held_;
  std::vector<Stream> streams_;
};

}  // namespace pleach
