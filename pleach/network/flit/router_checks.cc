// What can be seen in a fabric's state: what has passed its channels, whether it makes sense, and
// whether something in it waits for ever.
#include <fmt/format.h>

#include <algorithm>

#include "pleach/network/flit/router_state.h"

namespace pleach {
namespace {

// What is on the way to each input VC, and to each output VC and interface's VC in credits;
// interfaces' VCs as in events.
struct OnTheWay {
  std::vector<uint32_t> flits;
  std::vector<uint32_t> credits;
  std::vector<uint32_t> source_credits;
  std::vector<uint32_t> sink_flits;
};

OnTheWay on_the_way(const RouterState& state) {
  OnTheWay result;
  result.flits.resize(state.inputs.size());
  result.credits.resize(state.outputs.size());
  result.source_credits.resize(at(state.layout.interfaces) * kMostVcs);
  result.sink_flits.resize(result.source_credits.size());
  state.events.flits.for_each(kRouters,
                              [&](const FlitArrival& flit) { ++result.flits[flit.target]; });
  state.events.flits.for_each(kInterfaces, [&](const FlitArrival& flit) {
    ++result.sink_flits[flit.target & ~kAtInterface];
  });
  state.events.credits.for_each(kRouters, [&](uint32_t target) { ++result.credits[target]; });
  state.events.credits.for_each(
      kInterfaces, [&](uint32_t target) { ++result.source_credits[target & ~kAtInterface]; });
  return result;
}

uint32_t output_port_of(const RouterState& state, const OutputVc& out) {
  return out.router * state.layout.outputs + out.output;
}

uint32_t output_of(const RouterState& state, const InputVc& vc) {
  return vc.router * state.layout.output_vcs() + vc.out;
}

bool is_asking(const RouterState& state, const InputVc& vc) {
  return Bits<false>::has(&free_vcs_of(state, vc.router, vc.group) + 1, vc.local);
}

std::string check_credits(const RouterState& state) {
  const OnTheWay way = on_the_way(state);
  const auto buffer = static_cast<uint32_t>(state.options.buffer);
  for (std::size_t i = 0; i < state.outputs.size(); ++i) {
    const OutputVc& out = state.outputs[i];
    const ChannelStart& channel = state.output_ports[output_port_of(state, out)].channel;
    if (channel.channel == kNone) {
      continue;
    }
    const bool is_sink = (channel.target & kAtInterface) != 0;
    const uint32_t target = (channel.target & ~kAtInterface) + out.vc;
    const uint32_t there =
        is_sink ? way.sink_flits[target] : way.flits[target] + state.inputs[target].flits;
    if (out.credits + way.credits[i] + there != buffer) {
      return fmt::format(
          "router {}, output {}, VC {}: {} credits, {} on the way, and {} flits are "
          "not {}",
          out.router, out.output, out.vc, out.credits, way.credits[i], there, buffer);
    }
  }
  for (std::size_t i = 0; i < state.source_credits.size(); ++i) {
    const std::size_t interface = i / state.layout.vcs, vc = i % state.layout.vcs;
    const auto target = state.sources[interface].channel.target + static_cast<uint32_t>(vc);
    const uint32_t there = way.flits[target] + state.inputs[target].flits;
    const uint32_t returning = way.source_credits[interface * kMostVcs + vc];
    if (state.source_credits[i] + returning + there != buffer) {
      return fmt::format("interface {}, VC {}: {} credits, {} on the way, and {} flits are not {}",
                         interface, vc, state.source_credits[i], returning, there, buffer);
    }
  }
  return "";
}

std::string check_input(const RouterState& state, const InputVc& vc) {
  const RouterLayout& layout = state.layout;
  const auto place = [&] {
    return fmt::format("router {}, input {}, VC {}", vc.router, vc.local / layout.vcs,
                       vc.local % layout.vcs);
  };
  if (vc.packets == 0 && vc.flits > 0) {
    return place() + ": flits of no packet";
  }
  if (vc.out == kNoVc) {
    return vc.may_pass ? place() + ": may pass to nowhere" : "";
  }
  const OutputVc& out = state.outputs[output_of(state, vc)];
  if (out.owner != vc.local) {
    return place() + ": its output VC belongs to another";
  }
  const uint64_t* ready = block_of(state, out.router) + state.masks.ready +
                          std::size_t{out.output} * layout.input_words;
  const bool could = vc.may_pass && vc.flits > 0 && out.credits > 0;
  if (Bits<false>::has(ready, vc.local) != could) {
    return place() + (could ? ": is not ready" : ": must not be ready");
  }
  return "";
}

std::string check_output(const RouterState& state, const OutputVc& out) {
  if (state.output_ports[output_port_of(state, out)].channel.channel == kNone) {
    return "";
  }
  const bool could = out.owner == kNoVc && out.credits >= least_room(state.options);
  const uint64_t free = free_vcs_of(state, out.router, out.group);
  const bool is_free = (free >> out.vc & 1U) != 0;
  if (could != is_free) {
    return fmt::format("router {}, output {}, VC {}: free is {}", out.router, out.output, out.vc,
                       is_free);
  }
  return "";
}

// Which input VCs hold packets that may still move, or none.
class Progress {
 public:
  explicit Progress(const RouterState& state)
      : state_(state), way_(on_the_way(state)), moves_(state.inputs.size()) {}

  std::vector<VcWait> find() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (uint32_t i = 0; i < state_.inputs.size(); ++i) {
        if (!moves_[i] && can_move(i)) {
          moves_[i] = changed = true;
        }
      }
    }
    for (uint32_t i = 0; i < state_.inputs.size(); ++i) {
      if (!moves_[i]) {
        return circle_from(i);
      }
    }
    return {};
  }

 private:
  // Whether the flits behind an output VC go on, or there is room for one more.
  bool has_way(uint32_t output) const {
    const OutputVc& out = state_.outputs[output];
    if (out.credits > 0 || way_.credits[output] > 0) {
      return true;
    }
    const ChannelStart& channel = state_.output_ports[output_port_of(state_, out)].channel;
    return (channel.target & kAtInterface) != 0 || moves_[channel.target + out.vc];
  }
  // Whether a head may get an output VC one day: its packet goes on, and makes room behind it.
  bool may_get(const InputVc& vc, uint32_t output) const {
    const OutputVc& out = state_.outputs[output];
    if (out.owner != kNoVc) {
      return moves_[at(vc.router) * state_.layout.input_vcs() + out.owner];
    }
    const auto room = std::min(static_cast<uint32_t>(state_.options.room), vc.remaining);
    if (out.credits + way_.credits[output] >= room) {
      return true;
    }
    const ChannelStart& channel = state_.output_ports[output_port_of(state_, out)].channel;
    return (channel.target & kAtInterface) != 0 || moves_[channel.target + out.vc];
  }
  // The output VCs that it has or asks for.
  template <typename Visit>
  void for_each_wait(const InputVc& vc, Visit visit) const {
    if (vc.out != kNoVc) {
      visit(output_of(state_, vc));
      return;
    }
    const RouterLayout& layout = state_.layout;
    const uint32_t first = vc.router * layout.output_vcs() + vc.group / layout.classes * layout.vcs;
    for (uint32_t v = 0; v < layout.vcs; ++v) {
      if (state_.outputs[first + v].group == vc.group) {
        visit(first + v);
      }
    }
  }
  bool can_move(uint32_t input) const {
    const InputVc& vc = state_.inputs[input];
    if (vc.packets == 0 || way_.flits[input] > 0) {
      return true;
    }
    if (vc.out != kNoVc) {
      // Without flits here it waits for those behind, which are where somebody else is looked at.
      return vc.flits == 0 ? upstream_moves(input) : has_way(output_of(state_, vc));
    }
    if (!is_asking(state_, vc)) {
      return true;  // it will ask
    }
    bool any = false;
    for_each_wait(vc, [&](uint32_t output) { any = any || may_get(vc, output); });
    return any;
  }
  bool upstream_moves(uint32_t input) const {
    const uint32_t vcs = state_.layout.vcs;
    const uint32_t source = state_.input_ports[input / vcs].credits.target;
    if ((source & kAtInterface) != 0) {
      return true;  // what interfaces wait for, others give
    }
    const OutputVc& out = state_.outputs[source + input % vcs];
    return out.owner == kNoVc || moves_[at(out.router) * state_.layout.input_vcs() + out.owner];
  }
  // One that it waits for and that cannot move.
  uint32_t next_of(uint32_t input) const {
    const InputVc& vc = state_.inputs[input];
    if (vc.out != kNoVc && vc.flits == 0) {
      const uint32_t vcs = state_.layout.vcs;
      const OutputVc& source =
          state_.outputs[state_.input_ports[input / vcs].credits.target + input % vcs];
      return source.router * state_.layout.input_vcs() + source.owner;
    }
    uint32_t next = kNone;
    for_each_wait(vc, [&](uint32_t output) {
      const OutputVc& out = state_.outputs[output];
      const ChannelStart& channel = state_.output_ports[output_port_of(state_, out)].channel;
      const uint32_t owner = vc.router * state_.layout.input_vcs() + out.owner;
      const uint32_t other =
          out.owner != kNoVc && vc.out == kNoVc ? owner : channel.target + out.vc;
      if (next == kNone && other < moves_.size() && !moves_[other]) {
        next = other;
      }
    });
    return next;
  }
  std::vector<VcWait> circle_from(uint32_t input) const {
    std::vector<uint32_t> path;
    while (input != kNone && std::ranges::find(path, input) == path.end()) {
      path.push_back(input);
      input = next_of(input);
    }
    const auto first = input == kNone ? path.begin() : std::ranges::find(path, input);
    std::vector<VcWait> waits;
    for (auto place = first; place != path.end(); ++place) {
      const InputVc& vc = state_.inputs[*place];
      const auto vcs = state_.layout.vcs;
      waits.push_back({static_cast<int32_t>(vc.router), static_cast<int32_t>(vc.local / vcs),
                       static_cast<int32_t>(vc.local % vcs),
                       static_cast<int32_t>(vc.group / state_.layout.classes)});
    }
    return waits;
  }

  const RouterState& state_;
  const OnTheWay way_;
  std::vector<bool> moves_;
};

}  // namespace

std::vector<int64_t> channel_flits(const RouterState& state) {
  std::vector<int64_t> flits;
  const auto add = [&](const ChannelStart& channel) {
    if (channel.channel != kNone) {
      flits.resize(std::max(flits.size(), at(channel.channel) + 1));
      flits[channel.channel] = channel.flits;
    }
  };
  for (const OutputPort& port : state.output_ports) {
    add(port.channel);
  }
  for (const FlitSource& source : state.sources) {
    add(source.channel);
  }
  return flits;
}

std::string find_inconsistency(const RouterState& state) {
  std::string found = check_credits(state);
  for (std::size_t i = 0; i < state.inputs.size() && found.empty(); ++i) {
    found = check_input(state, state.inputs[i]);
  }
  for (std::size_t i = 0; i < state.outputs.size() && found.empty(); ++i) {
    found = check_output(state, state.outputs[i]);
  }
  return found;
}

std::vector<VcWait> find_deadlock(const RouterState& state) {
  return Progress(state).find();
}

}  // namespace pleach
