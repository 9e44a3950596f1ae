#include "pleach/network/flit/routers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/router_state.h"

namespace pleach {
namespace {

// What the switch has given: the input VC, and the port that it goes to.
struct SwitchGrant {
  uint32_t input = 0;  // in the fabric
  uint32_t output = 0;
};

// kNarrow: the layout is, so that every mask is a word.
template <bool kNarrow>
class Core final : public Routers {
 public:
  explicit Core(RouterState state) : s_(std::move(state)), least_room_(least_room(s_.options)) {
    scratch_.inputs_granted.resize(s_.layout.input_words);
    scratch_.port_grants.resize(at(s_.layout.inputs) * s_.layout.output_words);
    scratch_.vc_offers.resize(s_.layout.input_vcs());
    scratch_.candidates.resize(s_.layout.input_words);
    scratch_.switch_grants.resize(s_.layout.inputs);
    for (uint32_t vc = 0; vc < s_.layout.input_vcs(); ++vc) {
      numbers_.port_of_vc.push_back(static_cast<uint16_t>(vc / s_.layout.vcs));
    }
    for (uint32_t group = 0; group < s_.layout.groups(); ++group) {
      numbers_.output_of_group.push_back(static_cast<uint16_t>(group / s_.layout.classes));
    }
  }

  int64_t now() const override { return now_; }
  void begin_cycle() override;
  void end_cycle() override;
  std::optional<int64_t> next_cycle() const override;
  void skip_to(int64_t cycle) override { now_ = cycle; }
  std::span<const FlitDelivery> delivered() const override { return reports_.delivered; }
  std::span<const int32_t> drained() const override { return reports_.drained; }
  PacketNumber offer(int32_t interface, const Packet& packet) override;
  void supply(int32_t interface, PacketNumber packet, int32_t flits) override;
  int64_t queued_flits(int32_t interface) const override {
    return s_.sources[at(interface)].queued;
  }
  int64_t live_packets() const override { return s_.packets.count(); }
  const RouterCounts& counts() const override { return reports_.counts; }
  std::vector<int64_t> channel_flits() const override;
  std::vector<VcWait> deadlock() const override { return find_deadlock(s_); }
  std::string inconsistency() const override { return find_inconsistency(s_); }

 private:
  using Mask = Bits<kNarrow>;

  // Of a router's block of masks.
  uint64_t* block(uint32_t router) { return &s_.masks.words[at(router) * s_.masks.block]; }
  uint64_t* asking(uint64_t* block, uint32_t group) {
    return block + s_.masks.asking + group * input_words();
  }
  uint64_t* ready(uint64_t* block, uint32_t output) {
    return block + s_.masks.ready + output * input_words();
  }
  uint64_t& free_vcs(uint64_t* block, uint32_t group) { return block[s_.masks.free + group]; }
  uint64_t* groups(uint64_t* block) { return block + s_.masks.groups; }
  uint64_t* outputs(uint64_t* block) { return block + s_.masks.outputs; }
  uint64_t* closed(uint64_t* block) { return block + s_.masks.closed; }
  uint32_t input_words() const { return kNarrow ? 1 : s_.layout.input_words; }
  uint32_t output_words() const { return kNarrow ? 1 : s_.layout.output_words; }
  uint32_t group_words() const { return kNarrow ? 1 : s_.layout.group_words; }
  void activate(uint32_t router) { s_.masks.active[router / 64] |= bit_of(router); }

  // What comes in.
  void arrive(const FlitArrival& flit);
  void deliver(const FlitArrival& flit);
  void take_credit(uint32_t target);
  void ask(uint32_t input);
  void may_pass(uint32_t input);
  void open(uint32_t channel);
  void mark_ready(const InputVc& vc, uint32_t output);
  void mark_free(const OutputVc& out);

  // What a router does.
  void visit(uint32_t router);
  void match_switch(uint32_t router);
  bool match_again(uint32_t router);
  void accept_ports(uint32_t router, bool is_first);
  uint32_t choose_vc(uint32_t router, uint32_t input, uint32_t output);
  void allocate_vcs(uint32_t router);
  void allocate_group(uint32_t router, uint32_t group, bool is_first);
  const uint64_t* candidates_for(const uint64_t* all, const OutputVc& out);
  void give_vc(uint32_t router, uint32_t input, uint32_t output, bool is_first);
  void pass(const SwitchGrant& grant);
  void release(InputVc& vc, uint32_t input, OutputVc& out);

  // What an interface does.
  void start_front(FlitSource& source, uint32_t interface);
  bool choose_source_vc(FlitSource& source, uint32_t interface);
  void send(uint32_t interface);

  struct Reports {
    std::vector<FlitDelivery> delivered;
    std::vector<int32_t> drained;
    RouterCounts counts;
  };

  // Of the allocators, empty between calls.
  struct Scratch {
    std::vector<uint64_t> inputs_granted;  // ports, or VCs, that some output has chosen
    std::vector<uint64_t> port_grants;     // by input port: outputs that have chosen it
    std::vector<uint64_t> vc_offers;       // by input VC: VCs of its output that have chosen it
    std::vector<uint64_t> candidates;
    std::vector<SwitchGrant> switch_grants;
    uint32_t switch_grant_count = 0;
  };
  struct Numbers {
    std::vector<uint16_t> port_of_vc, output_of_group;  // as at every router
  };

  RouterState s_;
  const uint32_t least_room_;
  int64_t now_ = 0;
  Reports reports_;
  Scratch scratch_;
  Numbers numbers_;
};

template <bool kNarrow>
void Core<kNarrow>::mark_ready(const InputVc& vc, uint32_t output) {
  uint64_t* masks = block(vc.router);
  Mask::set(ready(masks, output), vc.local);
  if (!Mask::has(closed(masks), output)) {
    Mask::set(outputs(masks), output);
    activate(vc.router);
  }
}

// After a change of its owner or credits: whether a head could get it.
template <bool kNarrow>
void Core<kNarrow>::mark_free(const OutputVc& out) {
  if (out.owner != kFree || out.credits < least_room_) {
    return;
  }
  uint64_t* masks = block(out.router);
  free_vcs(masks, out.group) |= uint64_t{1} << out.vc;
  if (Mask::any(asking(masks, out.group), input_words())) {
    Mask::set(groups(masks), out.group);
    activate(out.router);
  }
}

template <bool kNarrow>
void Core<kNarrow>::ask(uint32_t input) {
  InputVc& vc = s_.inputs[input];
  const uint32_t packet = front_packet(s_, input);
  vc.group = s_.packets.take_hop(packet);
  vc.remaining = s_.packets.length(packet);
  vc.has_begun = false;
  uint64_t* masks = block(vc.router);
  Mask::set(asking(masks, vc.group), vc.local);
  if (free_vcs(masks, vc.group) != 0) {
    Mask::set(groups(masks), vc.group);
    activate(vc.router);
  }
}

template <bool kNarrow>
void Core<kNarrow>::may_pass(uint32_t input) {
  InputVc& vc = s_.inputs[input];
  vc.may_pass = true;
  const OutputVc& out = s_.outputs[vc.out];
  if (vc.flits > 0 && out.credits > 0) {
    mark_ready(vc, out.output);
  }
}

template <bool kNarrow>
void Core<kNarrow>::deliver(const FlitArrival& flit) {
  const uint32_t place = flit.target & ~kAtInterface;
  const uint32_t interface = place / s_.layout.vcs;
  const CreditPath& credits = s_.sinks[interface];
  s_.events.credits.add(now_ + credits.delay, credits.target + place % s_.layout.vcs);
  const uint32_t packet = flit.packet >> 2U;
  reports_.delivered.push_back(
      {static_cast<int32_t>(interface), packet, (flit.packet & 2U) != 0, (flit.packet & 1U) != 0});
  ++reports_.counts.flits_delivered;
}

template <bool kNarrow>
void Core<kNarrow>::arrive(const FlitArrival& flit) {
  if ((flit.target & kAtInterface) != 0) {
    deliver(flit);
    return;
  }
  InputVc& vc = s_.inputs[flit.target];
  ++vc.flits;
  if ((flit.packet & 2U) != 0) {  // a head
    s_.rings[at(flit.target) * s_.layout.ring +
             ((vc.first + uint32_t{vc.packets}) & (s_.layout.ring - 1))] = flit.packet >> 2U;
    if (++vc.packets > 1) {
      return;
    }
    if (s_.options.routing_delay == 0) {
      ask(flit.target);
    } else {
      s_.packets.prefetch(flit.packet >> 2U);
      s_.events.asks.add(now_ + s_.options.routing_delay, flit.target);
    }
  } else if (vc.may_pass && vc.flits == 1) {
    const OutputVc& out = s_.outputs[vc.out];
    if (out.credits > 0) {
      mark_ready(vc, out.output);
    }
  }
}

template <bool kNarrow>
void Core<kNarrow>::take_credit(uint32_t target) {
  if ((target & kAtInterface) != 0) {
    const uint32_t place = target & ~kAtInterface;
    ++s_.source_credits[place];
    const uint32_t interface = place / s_.layout.vcs;
    if (s_.sources[interface].front != kNone) {
      s_.masks.sending[interface / 64] |= bit_of(interface);
    }
    return;
  }
  OutputVc& out = s_.outputs[target];
  ++out.credits;
  if (out.owner == kFree) {
    mark_free(out);
    return;
  }
  const InputVc& vc = s_.inputs[at(out.router) * s_.layout.input_vcs() + out.owner];
  if (vc.may_pass && vc.flits > 0) {
    mark_ready(vc, out.output);
  }
}

template <bool kNarrow>
void Core<kNarrow>::open(uint32_t channel) {
  if ((channel & kAtInterface) != 0) {
    const uint32_t interface = channel & ~kAtInterface;
    if (s_.sources[interface].front != kNone) {
      s_.masks.sending[interface / 64] |= bit_of(interface);
    }
    return;
  }
  const uint32_t router = channel / s_.layout.outputs;
  const uint32_t output = channel % s_.layout.outputs;
  uint64_t* masks = block(router);
  Mask::clear(closed(masks), output);
  if (Mask::any(ready(masks, output), input_words())) {
    Mask::set(outputs(masks), output);
    activate(router);
  }
}

template <bool kNarrow>
void Core<kNarrow>::begin_cycle() {
  for (const FlitDelivery& delivery : reports_.delivered) {
    if (delivery.tail) {
      s_.packets.remove(delivery.packet);
    }
  }
  reports_.delivered.clear();
  s_.events.flits.take(now_, [this](const FlitArrival& flit) { arrive(flit); });
  s_.events.credits.take(now_, [this](uint32_t target) { take_credit(target); });
  s_.events.asks.take(now_, [this](uint32_t input) { ask(input); });
  s_.events.passes.take(now_, [this](uint32_t input) { may_pass(input); });
  s_.events.openings.take(now_, [this](uint32_t channel) { open(channel); });
}

// Outputs choose input ports, which accept one each.
template <bool kNarrow>
void Core<kNarrow>::match_switch(uint32_t router) {
  uint64_t* masks = block(router);
  const uint16_t* grants = &s_.output_grants[at(router) * s_.layout.outputs];
  Mask::for_each(outputs(masks), output_words(), [&](uint32_t output) {
    const uint32_t vc = Mask::first_from(ready(masks, output), input_words(), grants[output]);
    const uint32_t input = numbers_.port_of_vc[vc];
    Mask::set(&scratch_.port_grants[at(input) * output_words()], output);
    Mask::set(scratch_.inputs_granted.data(), input);
  });
  accept_ports(router, true);
}

// One more iteration, for what has nothing yet: whether there was any of it.
template <bool kNarrow>
bool Core<kNarrow>::match_again(uint32_t router) {
  const RouterLayout& layout = s_.layout;
  bool any = false;
  uint64_t* masks = block(router);
  Mask::for_each(outputs(masks), output_words(), [&](uint32_t output) {
    uint64_t* open = scratch_.candidates.data();
    std::copy_n(ready(masks, output), input_words(), open);
    for (uint32_t i = 0; i < scratch_.switch_grant_count; ++i) {
      if (scratch_.switch_grants[i].output == output) {
        return;
      }
      const uint32_t first = s_.inputs[scratch_.switch_grants[i].input].port * layout.vcs;
      for (uint32_t vc = first; vc < first + layout.vcs; ++vc) {
        Mask::clear(open, vc);
      }
    }
    if (Mask::any(open, input_words())) {
      const uint32_t vc = Mask::first_from(open, input_words(),
                                           s_.output_grants[at(router) * layout.outputs + output]);
      Mask::set(&scratch_.port_grants[at(numbers_.port_of_vc[vc]) * output_words()], output);
      Mask::set(scratch_.inputs_granted.data(), numbers_.port_of_vc[vc]);
      any = true;
    }
  });
  accept_ports(router, false);
  return any;
}

template <bool kNarrow>
void Core<kNarrow>::accept_ports(uint32_t router, bool is_first) {
  const RouterLayout& layout = s_.layout;
  Mask::for_each(scratch_.inputs_granted.data(), input_words(), [&](uint32_t input) {
    InputPort& port = s_.input_ports[at(router) * layout.inputs + input];
    uint64_t* grants = &scratch_.port_grants[at(input) * output_words()];
    const uint32_t output = Mask::first_from(grants, output_words(), port.accept);
    std::fill_n(grants, output_words(), 0);
    if (is_first) {
      const uint32_t next = (input + 1) * layout.vcs;
      s_.output_grants[at(router) * layout.outputs + output] =
          static_cast<uint16_t>(next == layout.input_vcs() ? 0 : next);
      port.accept = static_cast<uint16_t>(output + 1 == layout.outputs ? 0 : output + 1);
    }
    scratch_.switch_grants[scratch_.switch_grant_count++] = {choose_vc(router, input, output),
                                                             output};
  });
  std::fill_n(scratch_.inputs_granted.data(), input_words(), 0);
}

// Which VC of the input passes to the output.
template <bool kNarrow>
uint32_t Core<kNarrow>::choose_vc(uint32_t router, uint32_t input, uint32_t output) {
  const RouterLayout& layout = s_.layout;
  InputPort& port = s_.input_ports[at(router) * layout.inputs + input];
  const uint32_t first = router * layout.input_vcs() + input * layout.vcs;
  uint64_t vcs = Mask::slice(ready(block(router), output), input * layout.vcs, layout.vcs);
  if (s_.options.by_priority && (vcs & (vcs - 1)) != 0) {
    int32_t least = INT32_MAX;
    uint64_t best = 0;
    for (uint64_t rest = vcs; rest != 0; rest &= rest - 1) {
      const auto vc = static_cast<uint32_t>(std::countr_zero(rest));
      const int32_t priority = s_.packets.queued(front_packet(s_, first + vc)).priority;
      best = priority < least ? bit_of(vc) : priority == least ? best | bit_of(vc) : best;
      least = std::min(least, priority);
    }
    vcs = best;
  }
  const uint32_t vc = first_from(vcs, port.next_vc);
  port.next_vc = static_cast<uint16_t>(vc + 1 == layout.vcs ? 0 : vc + 1);
  return first + vc;
}

// The input VCs that may get `out`.
template <bool kNarrow>
const uint64_t* Core<kNarrow>::candidates_for(const uint64_t* all, const OutputVc& out) {
  if (out.credits >= s_.options.room) {
    return all;
  }
  std::copy_n(all, input_words(), scratch_.candidates.data());
  Mask::for_each(all, input_words(), [&](uint32_t local) {
    // A longer packet needs options.room, which is more than there is.
    if (s_.inputs[at(out.router) * s_.layout.input_vcs() + local].remaining > out.credits) {
      Mask::clear(scratch_.candidates.data(), local);
    }
  });
  return scratch_.candidates.data();
}

// Free VCs of a group choose heads that ask for one, which accept one each.
template <bool kNarrow>
void Core<kNarrow>::allocate_group(uint32_t router, uint32_t group, bool is_first) {
  const RouterLayout& layout = s_.layout;
  uint64_t* masks = block(router);
  const uint32_t first_input = router * layout.input_vcs();
  const uint32_t port = numbers_.output_of_group[group] * layout.vcs;
  const uint32_t first = router * layout.output_vcs() + port;
  const uint64_t free = free_vcs(masks, group);
  if (kNarrow && (free & (free - 1)) == 0) {  // one: what it chooses is accepted
    const auto vc = static_cast<uint32_t>(std::countr_zero(free));
    const uint64_t heads = *candidates_for(asking(masks, group), s_.outputs[first + vc]);
    if (heads != 0) {
      give_vc(router, first_input + first_from(heads, s_.outputs[first + vc].grant), first + vc,
              is_first);
    }
    return;
  }
  for (uint64_t rest = free; rest != 0; rest &= rest - 1) {
    const auto vc = static_cast<uint32_t>(std::countr_zero(rest));
    const OutputVc& out = s_.outputs[first + vc];
    const uint64_t* heads = candidates_for(asking(masks, group), out);
    if (Mask::any(heads, input_words())) {
      const uint32_t local = Mask::first_from(heads, input_words(), out.grant);
      scratch_.vc_offers[local] |= bit_of(vc);
      Mask::set(scratch_.inputs_granted.data(), local);
    }
  }
  Mask::for_each(scratch_.inputs_granted.data(), input_words(), [&](uint32_t local) {
    // The search goes round all VCs of all outputs; these are those of one.
    const uint32_t from = s_.inputs[first_input + local].accept - port;
    const uint32_t vc = first_from(scratch_.vc_offers[local], from < layout.vcs ? from : 0);
    scratch_.vc_offers[local] = 0;
    give_vc(router, first_input + local, first + vc, is_first);
  });
  std::fill_n(scratch_.inputs_granted.data(), input_words(), 0);
}

template <bool kNarrow>
void Core<kNarrow>::give_vc(uint32_t router, uint32_t input, uint32_t output, bool is_first) {
  const RouterLayout& layout = s_.layout;
  InputVc& vc = s_.inputs[input];
  OutputVc& out = s_.outputs[output];
  if (is_first) {
    const uint32_t next_input = vc.local + 1U;
    out.grant = static_cast<uint16_t>(next_input == layout.input_vcs() ? 0 : next_input);
    const uint32_t next_output = output + 1 - router * layout.output_vcs();
    vc.accept = static_cast<uint16_t>(next_output == layout.output_vcs() ? 0 : next_output);
  }
  out.owner = vc.local;
  vc.out = output;
  uint64_t* masks = block(router);
  free_vcs(masks, vc.group) &= ~bit_of(out.vc);
  Mask::clear(asking(masks, vc.group), vc.local);
  ++reports_.counts.vc_grants;
  if (s_.options.vc_delay == 1) {
    may_pass(input);  // the switch has been given away for this cycle
  } else {
    s_.events.passes.add(now_ + s_.options.vc_delay, input);
  }
}

template <bool kNarrow>
void Core<kNarrow>::allocate_vcs(uint32_t router) {
  uint64_t* masks = block(router);
  Mask::for_each(groups(masks), group_words(), [&](uint32_t group) {
    // In a group that is visited somebody asks and something is free.
    bool is_possible = true;
    for (int32_t i = 0; i < s_.options.iterations && is_possible; ++i) {
      allocate_group(router, group, i == 0);
      is_possible = free_vcs(masks, group) != 0 && Mask::any(asking(masks, group), input_words());
    }
    if (!is_possible) {
      Mask::clear(groups(masks), group);
    }
  });
}

// The VCs of a packet whose tail has passed are free from the next cycle on.
template <bool kNarrow>
void Core<kNarrow>::release(InputVc& vc, uint32_t input, OutputVc& out) {
  vc.out = kNone;
  vc.may_pass = false;
  vc.first = static_cast<uint16_t>((vc.first + 1U) & (s_.layout.ring - 1));
  if (--vc.packets > 0) {
    s_.packets.prefetch(front_packet(s_, input));
    s_.events.asks.add(now_ + 1 + s_.options.routing_delay, input);
  }
  out.owner = kFree;
  mark_free(out);
}

template <bool kNarrow>
void Core<kNarrow>::pass(const SwitchGrant& grant) {
  const RouterLayout& layout = s_.layout;
  InputVc& vc = s_.inputs[grant.input];
  OutputVc& out = s_.outputs[vc.out];
  const uint32_t router = vc.router;
  ChannelStart& channel = s_.output_ports[at(router) * layout.outputs + grant.output];
  const CreditPath& credits = s_.input_ports[at(router) * layout.inputs + vc.port].credits;
  const uint32_t head = vc.has_begun ? 0 : 2;
  const uint32_t tail = --vc.remaining == 0 ? 1 : 0;
  vc.has_begun = true;
  --vc.flits;
  --out.credits;
  ++channel.flits;
  ++reports_.counts.switch_grants;
  s_.events.flits.add(now_ + channel.delay,
                      {channel.target + out.vc, front_packet(s_, grant.input) << 2U | head | tail});
  s_.events.credits.add(now_ + credits.delay, credits.target + vc.vc);
  uint64_t* masks = block(router);
  if (tail != 0 || vc.flits == 0 || out.credits == 0) {
    uint64_t* waiting = ready(masks, grant.output);
    Mask::clear(waiting, vc.local);
    if (!Mask::any(waiting, input_words())) {
      Mask::clear(outputs(masks), grant.output);
    }
  }
  if (tail != 0) {
    release(vc, grant.input, out);
  }
  if (channel.pace != kNone) {
    ChannelPace& pace = s_.paces[channel.pace];
    pace.pass(now_);
    if (pace.next > now_ + 1) {
      Mask::set(closed(masks), grant.output);
      Mask::clear(outputs(masks), grant.output);
      s_.events.openings.add(pace.next, router * layout.outputs + grant.output);
    }
  }
}

template <bool kNarrow>
void Core<kNarrow>::visit(uint32_t router) {
  uint64_t* masks = block(router);
  scratch_.switch_grant_count = 0;
  if (Mask::any(outputs(masks), output_words())) {
    match_switch(router);
    for (int32_t i = 1; i < s_.options.iterations && match_again(router); ++i) {
    }
  }
  if (Mask::any(groups(masks), group_words())) {
    allocate_vcs(router);
  }
  for (uint32_t i = 0; i < scratch_.switch_grant_count; ++i) {
    pass(scratch_.switch_grants[i]);
  }
  if (!Mask::any(outputs(masks), output_words()) && !Mask::any(groups(masks), group_words())) {
    s_.masks.active[router / 64] &= ~bit_of(router);
  }
}

template <bool kNarrow>
void Core<kNarrow>::start_front(FlitSource& source, uint32_t interface) {
  source.remaining = s_.packets.length(source.front);
  s_.masks.sending[interface / 64] |= bit_of(interface);
}

template <bool kNarrow>
bool Core<kNarrow>::choose_source_vc(FlitSource& source, uint32_t interface) {
  const uint32_t vcs = s_.layout.vcs;
  const uint32_t room =
      std::max(1U, std::min(static_cast<uint32_t>(s_.options.room), source.remaining));
  for (uint32_t i = 0, vc = source.last_vc; i < vcs; ++i) {
    vc = vc + 1 == vcs ? 0 : vc + 1;
    if (s_.source_credits[interface * vcs + vc] >= room) {
      source.vc = source.last_vc = vc;
      return true;
    }
  }
  return false;
}

template <bool kNarrow>
void Core<kNarrow>::send(uint32_t interface) {
  FlitSource& source = s_.sources[interface];
  const auto rest = [&] { s_.masks.sending[interface / 64] &= ~bit_of(interface); };
  Packets::Queued& queued = s_.packets.queued(source.front);
  const bool is_open = source.channel.pace == kNone || s_.paces[source.channel.pace].next <= now_;
  if (!is_open || queued.supplied == 0 ||
      (source.vc == kNone && !choose_source_vc(source, interface))) {
    rest();
    return;
  }
  uint32_t& credits = s_.source_credits[interface * s_.layout.vcs + source.vc];
  if (credits == 0) {
    rest();
    return;
  }
  const uint32_t head = source.remaining == s_.packets.length(source.front) ? 2 : 0;
  const uint32_t tail = --source.remaining == 0 ? 1 : 0;
  --credits;
  --queued.supplied;
  --source.queued;
  ++source.channel.flits;
  ++reports_.counts.flits_sent;
  s_.events.flits.add(now_ + source.channel.delay,
                      {source.channel.target + source.vc, source.front << 2U | head | tail});
  if (source.channel.pace != kNone) {
    ChannelPace& pace = s_.paces[source.channel.pace];
    pace.pass(now_);
    if (pace.next > now_ + 1) {
      s_.events.openings.add(pace.next, kAtInterface | interface);
    }
  }
  if (tail != 0) {
    source.vc = kNone;
    source.front = queued.next;
    if (source.front != kNone) {
      start_front(source, interface);
    } else {
      source.back = kNone;
      reports_.drained.push_back(static_cast<int32_t>(interface));
      rest();
    }
  }
}

template <bool kNarrow>
void Core<kNarrow>::end_cycle() {
  reports_.drained.clear();
  for (std::size_t word = 0; word < s_.masks.active.size(); ++word) {
    for (uint64_t bits = s_.masks.active[word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<uint32_t>(word * 64 + at(std::countr_zero(bits))));
    }
  }
  for (std::size_t word = 0; word < s_.masks.sending.size(); ++word) {
    for (uint64_t bits = s_.masks.sending[word]; bits != 0; bits &= bits - 1) {
      send(static_cast<uint32_t>(word * 64 + at(std::countr_zero(bits))));
    }
  }
  ++now_;
}

template <bool kNarrow>
std::optional<int64_t> Core<kNarrow>::next_cycle() const {
  for (const auto* set : {&s_.masks.active, &s_.masks.sending}) {
    for (const uint64_t word : *set) {
      if (word != 0) {
        return now_;
      }
    }
  }
  int64_t next = INT64_MAX;
  next = s_.events.flits.next(now_, next);
  next = s_.events.credits.next(now_, next);
  next = s_.events.asks.next(now_, next);
  next = s_.events.passes.next(now_, next);
  next = s_.events.openings.next(now_, next);
  return next == INT64_MAX ? std::nullopt : std::optional(next);
}

template <bool kNarrow>
PacketNumber Core<kNarrow>::offer(int32_t interface, const Packet& packet) {
  PLEACH_CHECK(packet.length >= s_.options.shortest_packet, "a packet is too short");
  const uint32_t number = s_.packets.add(packet.hops, static_cast<uint32_t>(packet.length),
                                         packet.priority, static_cast<uint32_t>(packet.supplied));
  FlitSource& source = s_.sources[at(interface)];
  source.queued += packet.supplied;
  if (source.front == kNone) {
    source.front = source.back = number;
    start_front(source, static_cast<uint32_t>(interface));
  } else {
    s_.packets.queued(source.back).next = number;
    source.back = number;
  }
  return number;
}

template <bool kNarrow>
void Core<kNarrow>::supply(int32_t interface, PacketNumber packet, int32_t flits) {
  s_.packets.queued(packet).supplied += static_cast<uint32_t>(flits);
  FlitSource& source = s_.sources[at(interface)];
  source.queued += flits;
  if (source.front == packet) {
    s_.masks.sending[at(interface) / 64] |= bit_of(static_cast<uint32_t>(interface));
  }
}

template <bool kNarrow>
std::vector<int64_t> Core<kNarrow>::channel_flits() const {
  std::vector<int64_t> flits;
  const auto add = [&](const ChannelStart& channel) {
    if (channel.channel != kNone) {
      flits.resize(std::max(flits.size(), at(channel.channel) + 1));
      flits[channel.channel] = channel.flits;
    }
  };
  for (const ChannelStart& channel : s_.output_ports) {
    add(channel);
  }
  for (const FlitSource& source : s_.sources) {
    add(source.channel);
  }
  return flits;
}

}  // namespace

Result<std::unique_ptr<Routers>> Routers::create(const Fabric& fabric,
                                                 const RouterOptions& options) {
  PLEACH_ASSIGN(state, make_router_state(fabric, options));
  if (state.layout.is_narrow()) {
    return std::unique_ptr<Routers>(std::make_unique<Core<true>>(std::move(state)));
  }
  return std::unique_ptr<Routers>(std::make_unique<Core<false>>(std::move(state)));
}

}  // namespace pleach
