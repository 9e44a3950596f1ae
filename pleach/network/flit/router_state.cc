#include "pleach/network/flit/router_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace pleach {
namespace {

Status check_range(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most) {
    return invalid(fmt::format("{} '{}' is outside {} to {}", name, value, least, most));
  }
  return ok();
}

Status check_options(const RouterOptions& options) {
  constexpr int32_t kMostDelay = 1024;
  PLEACH_TRY(check_range("vcs", options.vcs, 1, kMostVcs));
  PLEACH_TRY(check_range("buffer", options.buffer, 1, INT16_MAX));
  PLEACH_TRY(check_range("classes", options.classes, 1, options.vcs));
  PLEACH_TRY(check_range("routing_delay", options.routing_delay, 0, kMostDelay));
  PLEACH_TRY(check_range("vc_delay", options.vc_delay, 1, kMostDelay));
  PLEACH_TRY(check_range("switch_delay", options.switch_delay, 1, kMostDelay));
  PLEACH_TRY(check_range("credit_delay", options.credit_delay, 0, kMostDelay));
  PLEACH_TRY(check_range("iterations", options.iterations, 1, 64));
  PLEACH_TRY(check_range("room", options.room, 0, options.buffer));
  return check_range("shortest packet", options.shortest_packet, 1, INT32_MAX);
}

uint32_t words_for(uint32_t numbers) {
  return std::max(1U, (numbers + 63) / 64);
}

Result<RouterLayout> layout_of(const Fabric& fabric, const RouterOptions& options) {
  constexpr uint32_t kMost = UINT16_MAX;
  RouterLayout layout;
  layout.routers = static_cast<uint32_t>(fabric.router_count);
  layout.interfaces = static_cast<uint32_t>(fabric.interface_count);
  layout.vcs = static_cast<uint32_t>(options.vcs);
  layout.classes = static_cast<uint32_t>(options.classes);
  for (const FabricChannel& channel : fabric.channels) {
    if (channel.source.router >= 0) {
      layout.outputs = std::max(layout.outputs, static_cast<uint32_t>(channel.source.port) + 1);
    }
    if (channel.target.router >= 0) {
      layout.inputs = std::max(layout.inputs, static_cast<uint32_t>(channel.target.port) + 1);
    }
  }
  const uint64_t all = uint64_t{layout.routers} * std::max(layout.inputs, layout.outputs);
  if (layout.input_vcs() >= kMost || layout.output_vcs() >= kMost || layout.groups() > kMost ||
      all * layout.vcs >= kAtInterface || uint64_t{layout.interfaces} * kMostVcs >= kAtInterface) {
    return invalid(fmt::format("{} ports of a router with {} VCs each are too many",
                               std::max(layout.inputs, layout.outputs), layout.vcs));
  }
  layout.input_words = words_for(layout.input_vcs());
  layout.output_words = words_for(layout.outputs);
  layout.group_words = words_for(layout.groups());
  const auto packets = static_cast<uint32_t>(options.buffer / options.shortest_packet) + 2;
  layout.ring = std::bit_ceil(options.shortest_packet == 1 ? packets - 2 : packets);
  return layout;
}

int64_t longest_delay(const Fabric& fabric, const RouterOptions& options) {
  int64_t longest = 0;
  for (const FabricChannel& channel : fabric.channels) {
    longest = std::max(longest, int64_t{channel.latency_cycles} + channel.passing_cycles);
  }
  return longest + 2 + options.switch_delay + options.credit_delay;
}

int64_t longest_opening(const Fabric& fabric) {
  int64_t longest = 2;
  for (const FabricChannel& channel : fabric.channels) {
    longest = std::max(longest, channel.rate.cycles / channel.rate.flits + 2);
  }
  return longest;
}

void make_vcs(RouterState& state) {
  const RouterLayout& layout = state.layout;
  state.inputs.resize(at(layout.routers) * layout.input_vcs());
  for (uint32_t i = 0; i < state.inputs.size(); ++i) {
    state.inputs[i].router = i / layout.input_vcs();
    state.inputs[i].local = static_cast<uint16_t>(i % layout.input_vcs());
  }
  state.outputs.resize(at(layout.routers) * layout.output_vcs());
  for (uint32_t i = 0; i < state.outputs.size(); ++i) {
    const uint32_t local = i % layout.output_vcs();
    state.outputs[i].router = i / layout.output_vcs();
    state.outputs[i].credits = static_cast<uint16_t>(state.options.buffer);
    state.outputs[i].output = static_cast<uint16_t>(local / layout.vcs);
    state.outputs[i].vc = static_cast<uint16_t>(local % layout.vcs);
  }
  state.rings.resize(state.inputs.size() * layout.ring);
  state.input_ports.resize(at(layout.routers) * layout.inputs);
  state.output_ports.resize(at(layout.routers) * layout.outputs);
  state.sources.resize(layout.interfaces);
  for (FlitSource& source : state.sources) {
    source.last_vc = layout.vcs - 1;
  }
  state.source_credits.assign(at(layout.interfaces) * layout.vcs,
                              static_cast<uint32_t>(state.options.buffer));
  state.sinks.resize(layout.interfaces);
}

void make_masks(RouterState& state) {
  const RouterLayout& layout = state.layout;
  RouterMasks& masks = state.masks;
  masks.open = masks.outputs + layout.output_words;
  masks.asked = masks.open + layout.output_words;
  masks.free = masks.asked + layout.group_words;
  masks.ready = masks.free + layout.group_words;
  masks.groups = masks.ready + layout.outputs * layout.input_words;
  masks.group = 1 + layout.input_words;
  masks.block = masks.groups + layout.groups() * masks.group;
  masks.words.resize(at(layout.routers) * masks.block);
  masks.active.resize(words_for(layout.routers));
  masks.sending.resize(words_for(layout.interfaces));
}

// The channel leaves a router's port, whose VCs the packets get from it.
void add_output(RouterState& state, const FabricChannel& channel, const ChannelStart& start) {
  const RouterLayout& layout = state.layout;
  const auto router = static_cast<uint32_t>(channel.source.router);
  const auto port = static_cast<uint32_t>(channel.source.port);
  const std::size_t output = at(router) * layout.outputs + port;
  state.output_ports[output].channel = start;
  uint64_t* block = &state.masks.words[at(router) * state.masks.block];
  Bits<false>::set(block + state.masks.open, port);
  for (uint32_t vc = 0; vc < layout.vcs; ++vc) {
    const bool is_ejection = channel.target.router < 0;
    const uint32_t vc_class = is_ejection ? 0 : vc * layout.classes / layout.vcs;
    const uint32_t group = port * layout.classes + vc_class;
    state.outputs[output * layout.vcs + vc].group = static_cast<uint16_t>(group);
    Bits<false>::set(block + state.masks.free, group);
    block[state.masks.groups + group * state.masks.group] |= bit_of(vc);
  }
}

void connect(RouterState& state, const Fabric& fabric) {
  const RouterLayout& layout = state.layout;
  for (std::size_t i = 0; i < fabric.channels.size(); ++i) {
    const FabricChannel& channel = fabric.channels[i];
    const auto [from, out] = channel.source;
    const auto [to, in] = channel.target;
    PLEACH_CHECK(from >= 0 || to >= 0, "a channel joins two interfaces");
    const auto latency = static_cast<uint32_t>(channel.latency_cycles) + 1;
    const uint32_t target =
        to >= 0
            ? (static_cast<uint32_t>(to) * layout.inputs + static_cast<uint32_t>(in)) * layout.vcs
            : kAtInterface | (static_cast<uint32_t>(in) * kMostVcs);
    const uint32_t source =
        from >= 0 ? (static_cast<uint32_t>(from) * layout.outputs + static_cast<uint32_t>(out)) *
                        layout.vcs
                  : kAtInterface | (static_cast<uint32_t>(out) * kMostVcs);
    const uint32_t passing =
        from >= 0 ? static_cast<uint32_t>(state.options.switch_delay + channel.passing_cycles) : 0;
    ChannelStart start{
        .target = target,
        .lane = state.events.flits.lane(side_of(target), static_cast<int32_t>(latency + passing)),
        .channel = static_cast<uint32_t>(i)};
    if (channel.rate.flits < channel.rate.cycles) {
      start.pace = static_cast<uint32_t>(state.paces.size());
      state.paces.push_back({.rate = channel.rate});
    }
    if (from >= 0) {
      add_output(state, channel, start);
    } else {
      state.sources[at(out)].channel = start;
    }
    const uint32_t counting = from >= 0 ? static_cast<uint32_t>(state.options.credit_delay) : 0;
    const CreditPath credits{
        source,
        state.events.credits.lane(side_of(source), static_cast<int32_t>(latency + counting))};
    if (to >= 0) {
      state.input_ports[at(to) * layout.inputs + at(in)].credits = credits;
    } else {
      state.sinks[at(in)] = credits;
    }
  }
}

}  // namespace

Result<RouterState> make_router_state(const Fabric& fabric, const RouterOptions& options) {
  PLEACH_TRY(check_options(options));
  PLEACH_ASSIGN(layout, layout_of(fabric, options));
  const int64_t delay = longest_delay(fabric, options);
  const int64_t ask = options.routing_delay + 2;
  RouterState state;
  state.options = options;
  state.layout = layout;
  state.events.flits = LaneWheel<FlitArrival>(delay, 2);
  state.events.credits = LaneWheel<uint32_t>(delay, 2);
  state.events.asks = LaneWheel<HeadAsk>(ask);
  state.events.arrival_ask = state.events.asks.lane(0, std::max(1, options.routing_delay));
  state.events.next_ask = state.events.asks.lane(0, options.routing_delay + 1);
  state.events.passes = LaneWheel<uint32_t>(options.vc_delay);
  state.events.passes.lane(0, options.vc_delay);
  state.events.openings = TimeWheel<uint32_t>(longest_opening(fabric));
  make_vcs(state);
  make_masks(state);
  connect(state, fabric);
  return state;
}

}  // namespace pleach
