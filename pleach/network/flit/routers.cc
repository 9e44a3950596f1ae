#include "pleach/network/flit/routers.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/network/flit/bits.h"
#include "pleach/network/flit/packets.h"
#include "pleach/network/flit/router_state.h"
#include "pleach/network/flit/steady_streams.h"

namespace pleach {
namespace {

enum class NearHop : uint8_t {};
enum class FarHop : uint16_t {};

// Branches that depend on what is in buffers are costly: where it can, this writes a bit or counts
// an event that may be none instead.
//   kNarrow  the layout is, so that every mask is a word
template <bool kNarrow>
class Core final : public Routers {
 public:
  explicit Core(RouterState state)
      : s_(std::move(state)),
        least_room_(least_room(s_.options)),
        fits_all_(least_room_ == static_cast<uint32_t>(s_.options.room)) {
    scratch_.vc_offers.resize(s_.layout.input_vcs());
    for (auto* mask :
         {&scratch_.chosen, &scratch_.candidates, &scratch_.vcs_taken, &scratch_.tries}) {
      mask->resize(s_.layout.input_words);
    }
    scratch_.outputs_left.resize(s_.layout.output_words);
    if constexpr (!kNarrow) {
      for (Matching& matching : matchings_) {
        matching.granted.resize(s_.layout.input_words);
        matching.accepted.resize(s_.layout.inputs);
        matching.passing.resize(s_.layout.inputs);
      }
    }
    for (uint32_t vc = 0; vc < s_.layout.input_vcs(); ++vc) {
      numbers_.port_of_vc.push_back(static_cast<uint16_t>(vc / s_.layout.vcs));
    }
    for (uint32_t group = 0; group < s_.layout.groups(); ++group) {
      numbers_.first_vc_of_group.push_back(group / s_.layout.classes * s_.layout.vcs);
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
    return s_.sources[at(interface)].queued - streams_.uncounted(interface, now_);
  }
  void settle() override { streams_.release_all(now_); }
  int64_t live_packets() const override { return packets_.count(); }
  RouterCounts counts() const override;
  std::vector<int64_t> channel_flits() const override { return pleach::channel_flits(s_); }
  std::vector<VcWait> deadlock() const override { return find_deadlock(s_); }
  std::string inconsistency() const override { return find_inconsistency(s_); }

 private:
  using Mask = Bits<kNarrow>;

  // A router's block of masks, and what is in it. Of a narrow one the first are where they are.
  uint64_t* block(uint32_t router) { return &s_.masks.words[at(router) * s_.masks.block]; }
  uint64_t* outputs(uint64_t* block) const { return block; }
  uint64_t* open(uint64_t* block) const { return block + (kNarrow ? 1 : s_.masks.open); }
  uint64_t* asked(uint64_t* block) const { return block + (kNarrow ? 2 : s_.masks.asked); }
  uint64_t* free(uint64_t* block) const { return block + (kNarrow ? 3 : s_.masks.free); }
  uint64_t* ready(uint64_t* block, uint32_t output) const {
    return block + (kNarrow ? 4 : s_.masks.ready) + output * input_words();
  }
  uint64_t& free_vcs(uint64_t* block, uint32_t group) const {
    return block[s_.masks.groups + group * (1 + input_words())];
  }
  uint64_t* asking(uint64_t* block, uint32_t group) const { return &free_vcs(block, group) + 1; }
  uint32_t input_words() const { return kNarrow ? 1 : s_.layout.input_words; }
  uint32_t output_words() const { return kNarrow ? 1 : s_.layout.output_words; }
  uint32_t group_words() const { return kNarrow ? 1 : s_.layout.group_words; }
  bool may_pass_any(uint64_t* block) const {
    return Mask::meet(outputs(block), open(block), output_words());
  }
  bool may_give_any(uint64_t* block) const {
    return Mask::meet(asked(block), free(block), group_words());
  }
  void activate_if(uint32_t router, bool value) {
    Bits<false>::set_if(s_.masks.active.data(), router, value);
  }
  void wake_if(uint32_t interface, bool value) {
    Bits<false>::set_if(s_.masks.sending.data(), interface, value);
  }

  OutputVc& output_of(const InputVc& vc) {
    return s_.outputs[at(vc.router) * s_.layout.output_vcs() + vc.out];
  }
  uint32_t* ring_of(uint32_t input) { return &s_.rings[at(input) * s_.layout.ring]; }

  // What comes in.
  void arrive(const FlitArrival& flit);
  void deliver(const FlitArrival& flit);
  void take_credit(uint32_t target);
  void take_source_credit(uint32_t target);
  void ask(const HeadAsk& head);
  void open_channel(uint32_t channel);
  void mark_ready_if(const InputVc& vc, uint64_t* masks, uint32_t output, bool value);
  void begin_tries(const InputVc& vc, const OutputVc& out, uint64_t* masks, int64_t cycle);
  void mark_free_if(const OutputVc& out, uint64_t* masks, bool value);

  // At least so many as a narrow layout needs.
  template <typename Value, std::size_t kMost>
  using Few = std::conditional_t<kNarrow, std::array<Value, kMost>, std::vector<Value>>;

  // What a router has, in the order of its ports and VCs.
  struct View {
    uint32_t router = 0;
    uint64_t* masks = nullptr;
    InputVc* inputs = nullptr;
    OutputVc* outputs = nullptr;
    InputPort* input_ports = nullptr;
    OutputPort* output_ports = nullptr;
  };
  View view_of(uint32_t router) {
    return {router,
            block(router),
            &s_.inputs[at(router) * s_.layout.input_vcs()],
            &s_.outputs[at(router) * s_.layout.output_vcs()],
            &s_.input_ports[at(router) * s_.layout.inputs],
            &s_.output_ports[at(router) * s_.layout.outputs]};
  }

  // What a router is about to do in this cycle.
  struct Matching {
    View view;
    Few<uint64_t, 1> granted;    // input ports that have accepted an output
    Few<uint32_t, 64> accepted;  // by input port: the output
    Few<uint32_t, 64> passing;   // by input port: its VC that passes, numbered at the port
  };
  // What a router does, in two parts.
  void visit_routers();
  void match(uint32_t router, Matching& matching);
  void move(const Matching& matching);
  void match_again(Matching& matching);
  void move_pointers(const Matching& matching, uint32_t input);
  void choose(Matching& matching, const uint64_t* vcs, uint32_t output);
  void choose_vc(Matching& matching, uint32_t input);
  static uint64_t most_urgent(uint64_t vcs, const InputVc* inputs);
  void allocate_vcs(const View& view);
  void share_group(const View& view, uint32_t group, bool is_first);
  // The search goes round all VCs of all outputs; `vcs` are of one, whose first is 0.
  uint32_t first_vc_from(uint64_t vcs, uint32_t from) const {
    return first_from(vcs, from < s_.layout.vcs ? from : 0);
  }
  const uint64_t* candidates_for(const View& view, const uint64_t* all, const OutputVc& out);
  void give_vc(const View& view, uint32_t local, uint32_t out_local, bool is_first);
  void pass(const View& view, const CreditPath& credits, uint32_t first, uint32_t number);
  void release(const View& view, InputVc& vc, OutputVc& out);
  void hold(ChannelStart& channel, const View& view, uint32_t output);

  // What an interface does.
  void start_front(FlitSource& source, uint32_t interface);
  bool choose_source_vc(FlitSource& source, uint32_t interface);
  void send(uint32_t interface);
  void finish_front(FlitSource& source, uint32_t interface);

  struct Reports {
    std::vector<FlitDelivery> delivered;
    std::vector<int32_t> drained;
    RouterCounts counts;
  };

  // Room of the allocators.
  struct Scratch {
    std::vector<uint64_t> vc_offers;   // by input VC: VCs of its output that have chosen it; or 0
    std::vector<uint64_t> chosen;      // input VCs with such; empty between calls
    std::vector<uint64_t> candidates;  // input VCs
    std::vector<uint64_t> vcs_taken, outputs_left;
    std::vector<uint64_t> tries;
  };
  struct Numbers {  // as at every router
    std::vector<uint16_t> port_of_vc;
    std::vector<uint32_t> first_vc_of_group;  // of its output
  };

  RouterState s_;
  using PacketSet = Packets<std::conditional_t<kNarrow, NearHop, FarHop>>;
  PacketSet packets_;
  SteadyStreams<PacketSet> streams_{s_, packets_, reports_.counts};
  const uint32_t least_room_;
  const bool fits_all_;  // what has the least room has it for all packets
  int64_t now_ = 0;
  Reports reports_;
  Scratch scratch_;
  std::array<Matching, 2> matchings_{};  // choose() reads what no output has written yet
  Numbers numbers_;
};

template <bool kNarrow>
void Core<kNarrow>::mark_ready_if(const InputVc& vc, uint64_t* masks, uint32_t output, bool value) {
  Mask::set_if(ready(masks, output), vc.local, value);
  Mask::set_if(outputs(masks), output, value);
}

// It may pass, and has a flit: from `cycle` on it tries to, or waits for a credit.
template <bool kNarrow>
void Core<kNarrow>::begin_tries(const InputVc& vc, const OutputVc& out, uint64_t* masks,
                                int64_t cycle) {
  const bool can = out.credits > 0;
  s_.times.ready.enter_if(cycle, can);
  s_.times.starved.enter_if(cycle, !can);
  mark_ready_if(vc, masks, out.output, can);
}

// After a change of its owner or credits: a head could get it.
template <bool kNarrow>
void Core<kNarrow>::mark_free_if(const OutputVc& out, uint64_t* masks, bool value) {
  free_vcs(masks, out.group) |= uint64_t{value} << out.vc;
  Mask::set_if(free(masks), out.group, value);
}

template <bool kNarrow>
void Core<kNarrow>::ask(const HeadAsk& head) {
  InputVc& vc = s_.inputs[head.input];
  vc.front = head.packet;
  const auto [hop, length, priority] = packets_.take_hop(vc.front);
  vc.group = hop;
  vc.remaining = length;
  vc.priority = priority;
  vc.has_head = true;
  s_.times.asking.enter_if(now_, true);
  uint64_t* masks = block(vc.router);
  Mask::set(asking(masks, vc.group), vc.local);
  Mask::set(asked(masks), vc.group);
  activate_if(vc.router, Mask::has(free(masks), vc.group));
  streams_.meet(vc.router, vc.group);
}

template <bool kNarrow>
void Core<kNarrow>::deliver(const FlitArrival& flit) {
  const uint32_t place = flit.target & ~kAtInterface;
  const uint32_t interface = place / kMostVcs;
  const CreditPath& credits = s_.sinks[interface];
  s_.events.credits.add(credits.lane, credits.target + place % kMostVcs);
  reports_.delivered.push_back({static_cast<int32_t>(interface), flit.packet >> 2U,
                                (flit.packet & kHeadFlit) != 0, (flit.packet & kTailFlit) != 0});
}

template <bool kNarrow>
void Core<kNarrow>::arrive(const FlitArrival& flit) {
  InputVc& vc = s_.inputs[flit.target];
  ++vc.flits;
  int64_t& deepest = reports_.counts.deepest_buffer;
  deepest = std::max<int64_t>(deepest, vc.flits);
  if ((flit.packet & kHeadFlit) != 0) {
    const uint32_t packet = flit.packet >> 2U;
    ring_of(flit.target)[(vc.first + uint32_t{vc.packets}) & (s_.layout.ring - 1)] = packet;
    const bool is_front = ++vc.packets == 1;
    if (s_.options.routing_delay > 0) {
      s_.events.asks.add_if(s_.events.arrival_ask, {flit.target, packet}, is_front);
    } else if (is_front) {
      ask({flit.target, packet});
    }
  } else if (vc.may_pass && vc.flits == 1) {
    const OutputVc& out = output_of(vc);
    begin_tries(vc, out, block(vc.router), now_);
    activate_if(vc.router, out.credits > 0);
  }
}

template <bool kNarrow>
void Core<kNarrow>::take_credit(uint32_t target) {
  OutputVc& out = s_.outputs[target];
  ++out.credits;
  uint64_t* masks = block(out.router);
  const bool can_be_had = (out.owner == kNoVc) & (out.credits >= least_room_);
  mark_free_if(out, masks, can_be_had);
  activate_if(out.router, can_be_had & Mask::has(asked(masks), out.group));
  if (out.credits == 1 && out.owner != kNoVc) {
    const InputVc& vc = s_.inputs[at(out.router) * s_.layout.input_vcs() + out.owner];
    const bool can = vc.may_pass && vc.flits > 0;
    s_.times.starved.leave_if(now_, can);
    s_.times.ready.enter_if(now_, can);
    mark_ready_if(vc, masks, out.output, can);
    activate_if(out.router, can);
  }
}

template <bool kNarrow>
void Core<kNarrow>::take_source_credit(uint32_t target) {
  const uint32_t place = target & ~kAtInterface;
  const uint32_t interface = place / kMostVcs;
  ++s_.source_credits[interface * s_.layout.vcs + place % kMostVcs];
  wake_if(interface, s_.sources[interface].front != kNone);
}

template <bool kNarrow>
void Core<kNarrow>::open_channel(uint32_t channel) {
  if ((channel & kAtInterface) != 0) {
    const uint32_t interface = channel & ~kAtInterface;
    wake_if(interface, s_.sources[interface].front != kNone);
    return;
  }
  const uint32_t router = channel / s_.layout.outputs;
  const uint32_t output = channel % s_.layout.outputs;
  uint64_t* masks = block(router);
  Mask::set(open(masks), output);
  activate_if(router, Mask::has(outputs(masks), output));
}

template <bool kNarrow>
void Core<kNarrow>::begin_cycle() {
  for (const FlitDelivery& delivery : reports_.delivered) {
    if (delivery.tail) {
      packets_.remove(delivery.packet);
    }
  }
  reports_.delivered.clear();
  streams_.update(now_);
  RouterEvents& events = s_.events;
  events.flits.open(now_);
  events.credits.open(now_);
  events.asks.open(now_);
  events.passes.open(now_);
  const auto prefetch_input = [this](uint32_t input) { __builtin_prefetch(&s_.inputs[input], 1); };
  reports_.counts.buffer_writes += events.flits.take(
      kRouters, now_, [this](const FlitArrival& flit) { arrive(flit); },
      [&](const FlitArrival& flit) { prefetch_input(flit.target); });
  reports_.counts.flits_delivered +=
      events.flits.take(kInterfaces, now_, [this](const FlitArrival& flit) { deliver(flit); });
  events.credits.take(
      kRouters, now_, [this](uint32_t target) { take_credit(target); },
      [this](uint32_t target) { __builtin_prefetch(&s_.outputs[target], 1); });
  events.credits.take(kInterfaces, now_, [this](uint32_t target) { take_source_credit(target); });
  events.asks.take(
      0, now_, [this](const HeadAsk& head) { ask(head); },
      [&](const HeadAsk& head) {
        prefetch_input(head.input);
        packets_.prefetch(head.packet);
      });
  events.passes.take(0, now_, [this](uint32_t input) {
    InputVc& vc = s_.inputs[input];
    vc.may_pass = true;
    begin_tries(vc, output_of(vc), block(vc.router), now_);
    activate_if(vc.router, true);
  });
  events.openings.take(now_, [this](uint32_t channel) { open_channel(channel); });
}

// The output chooses one of `vcs`. Its port accepts the first output from
// `accept` on of those that have chosen it; they come in ascending order.
template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::choose(Matching& matching, const uint64_t* vcs,
                                                         uint32_t output) {
  const View& view = matching.view;
  const uint32_t vc = Mask::first_from(vcs, input_words(), view.output_ports[output].grant);
  const uint32_t input = numbers_.port_of_vc[vc];
  const uint32_t accept = view.input_ports[input].accept;
  const uint32_t accepted = matching.accepted[input];
  const bool is_better =
      (!Mask::has(matching.granted.data(), input)) | ((accepted < accept) & (accept <= output));
  matching.accepted[input] = is_better ? output : accepted;
  Mask::set(matching.granted.data(), input);
}

// Further iterations, among outputs and input ports that have nothing yet.
template <bool kNarrow>
void Core<kNarrow>::match_again(Matching& matching) {
  const View& view = matching.view;
  uint64_t* taken = scratch_.vcs_taken.data();
  uint64_t* left = scratch_.outputs_left.data();
  for (int32_t i = 1; i < s_.options.iterations; ++i) {
    std::fill_n(taken, input_words(), 0);
    std::copy_n(outputs(view.masks), output_words(), left);
    Mask::for_each(matching.granted.data(), input_words(), [&](uint32_t input) {
      Mask::clear(left, matching.accepted[input]);
      for (uint32_t vc = 0; vc < s_.layout.vcs; ++vc) {
        Mask::set(taken, input * s_.layout.vcs + vc);
      }
    });
    Mask::for_each_shared(left, open(view.masks), output_words(), [&](uint32_t output) {
      const uint64_t* vcs =
          Mask::minus(ready(view.masks, output), taken, input_words(), scratch_.tries.data());
      if (Mask::any(vcs, input_words())) {
        choose(matching, vcs, output);
      }
    });
  }
}

template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::move_pointers(const Matching& matching,
                                                                uint32_t input) {
  const uint32_t output = matching.accepted[input];
  matching.view.output_ports[output].grant = (input + 1) * s_.layout.vcs;
  matching.view.input_ports[input].accept = output + 1;
}

// What an input port lets pass to the output that it has accepted.
template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::choose_vc(Matching& matching, uint32_t input) {
  const View& view = matching.view;
  const uint32_t first = input * s_.layout.vcs;
  InputPort& port = view.input_ports[input];
  uint64_t vcs = Mask::slice(ready(view.masks, matching.accepted[input]), first, s_.layout.vcs);
  if (s_.options.by_priority && !has_one(vcs)) {
    vcs = most_urgent(vcs, view.inputs + first);
  }
  const uint32_t vc = first_from(vcs, port.next_vc);
  port.next_vc = vc + 1;
  matching.passing[input] = vc;
  __builtin_prefetch(&view.inputs[first + vc], 1);
}

// Outputs choose input ports, which accept one each and choose a VC. Nothing moves.
template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::match(uint32_t router, Matching& matching) {
  matching.view = view_of(router);
  std::fill_n(matching.granted.data(), input_words(), 0);
  uint64_t* masks = matching.view.masks;
  Mask::for_each_shared(outputs(masks), open(masks), output_words(),
                        [&](uint32_t output) { choose(matching, ready(masks, output), output); });
  Mask::for_each(matching.granted.data(), input_words(),
                 [&](uint32_t input) { move_pointers(matching, input); });
  if (s_.options.iterations > 1) {
    match_again(matching);
  }
  Mask::for_each(matching.granted.data(), input_words(),
                 [&](uint32_t input) { choose_vc(matching, input); });
}

// Of an input's VCs those of the smallest priority.
template <bool kNarrow>
uint64_t Core<kNarrow>::most_urgent(uint64_t vcs, const InputVc* inputs) {
  int32_t least = INT32_MAX;
  uint64_t best = 0;
  for (uint64_t rest = vcs; rest != 0; rest &= rest - 1) {
    const uint32_t vc = first_of(rest);
    const int32_t priority = inputs[vc].priority;
    best = priority < least ? bit_of(vc) : priority == least ? best | bit_of(vc) : best;
    least = std::min(least, priority);
  }
  return best;
}

// The input VCs that may get `out`.
template <bool kNarrow>
const uint64_t* Core<kNarrow>::candidates_for(const View& view, const uint64_t* all,
                                              const OutputVc& out) {
  if (fits_all_ || out.credits >= s_.options.room) {
    return all;
  }
  std::copy_n(all, input_words(), scratch_.candidates.data());
  Mask::for_each(all, input_words(), [&](uint32_t local) {
    // A longer packet needs options.room, which is more than there is.
    if (view.inputs[local].remaining > out.credits) {
      Mask::clear(scratch_.candidates.data(), local);
    }
  });
  return scratch_.candidates.data();
}

// Free VCs of a group choose heads that ask for one, which accept one each.
template <bool kNarrow>
void Core<kNarrow>::share_group(const View& view, uint32_t group, bool is_first) {
  const uint32_t first = numbers_.first_vc_of_group[group];
  const uint64_t free = free_vcs(view.masks, group);
  if (kNarrow && has_one(free)) {  // whom it chooses, accepts it
    const OutputVc& out = view.outputs[first + first_of(free)];
    const uint64_t heads = *candidates_for(view, asking(view.masks, group), out);
    if (heads != 0) {
      give_vc(view, first_from(heads, out.grant), first + first_of(free), is_first);
    }
    return;
  }
  uint64_t* chosen = scratch_.chosen.data();
  for (uint64_t rest = free; rest != 0; rest &= rest - 1) {
    const uint32_t vc = first_of(rest);
    const OutputVc& out = view.outputs[first + vc];
    const uint64_t* heads = candidates_for(view, asking(view.masks, group), out);
    if (Mask::any(heads, input_words())) {
      const uint32_t local = Mask::first_from(heads, input_words(), out.grant);
      scratch_.vc_offers[local] |= bit_of(vc);
      Mask::set(chosen, local);
    }
  }
  Mask::for_each(chosen, input_words(), [&](uint32_t local) {
    const uint32_t vc = first_vc_from(scratch_.vc_offers[local], view.inputs[local].accept - first);
    scratch_.vc_offers[local] = 0;
    give_vc(view, local, first + vc, is_first);
  });
  std::fill_n(chosen, input_words(), 0);
}

template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::give_vc(const View& view, uint32_t local,
                                                          uint32_t out_local, bool is_first) {
  InputVc& vc = view.inputs[local];
  OutputVc& out = view.outputs[out_local];
  if (is_first) {
    out.grant = static_cast<uint16_t>(local + 1);
    vc.accept = static_cast<uint16_t>(out_local + 1);
  }
  out.owner = static_cast<uint16_t>(local);
  vc.out = static_cast<uint16_t>(out_local);
  uint64_t& left = free_vcs(view.masks, vc.group);
  left &= ~bit_of(out.vc);
  Mask::clear_if(free(view.masks), vc.group, left == 0);
  uint64_t* others = asking(view.masks, vc.group);
  Mask::clear(others, local);
  Mask::clear_if(asked(view.masks), vc.group, !Mask::any(others, input_words()));
  ++reports_.counts.vc_grants;
  s_.times.asking.leave_if(now_, true);
  if (s_.options.vc_delay == 1) {
    vc.may_pass = true;
    begin_tries(vc, out, view.masks, now_ + 1);
  } else {
    s_.events.passes.add(0, view.router * s_.layout.input_vcs() + local);
  }
}

template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::allocate_vcs(const View& view) {
  Mask::for_each_shared(asked(view.masks), free(view.masks), group_words(), [&](uint32_t group) {
    const uint64_t* heads = asking(view.masks, group);
    if (kNarrow && has_one(*heads) && fits_all_) {  // all VCs choose it
      const uint32_t local = first_of(*heads);
      const uint32_t first = numbers_.first_vc_of_group[group];
      give_vc(view, local,
              pleach::first_from(free_vcs(view.masks, group) << first, view.inputs[local].accept),
              true);
      return;
    }
    share_group(view, group, true);
    for (int32_t i = 1; i < s_.options.iterations && Mask::has(asked(view.masks), group) &&
                        Mask::has(free(view.masks), group);
         ++i) {
      share_group(view, group, false);
    }
  });
}

// The VCs of a packet whose tail has passed are free from the next cycle on.
template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::release(const View& view, InputVc& vc,
                                                          OutputVc& out) {
  const uint32_t input = view.router * s_.layout.input_vcs() + vc.local;
  vc.out = kNoVc;
  vc.may_pass = false;
  vc.first = static_cast<uint16_t>((vc.first + 1U) & (s_.layout.ring - 1));
  const bool has_next = --vc.packets > 0;
  s_.events.asks.add_if(s_.events.next_ask, {input, ring_of(input)[vc.first]}, has_next);
  out.owner = kNoVc;
  mark_free_if(out, view.masks, out.credits >= least_room_);
}

// After a flit: the channel may not pass one in every cycle.
template <bool kNarrow>
void Core<kNarrow>::hold(ChannelStart& channel, const View& view, uint32_t output) {
  ChannelPace& pace = s_.paces[channel.pace];
  pace.pass(now_);
  if (pace.next > now_ + 1) {
    Mask::clear(open(view.masks), output);
    s_.events.openings.add(pace.next, view.router * s_.layout.outputs + output);
  }
}

template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::pass(const View& view, const CreditPath& credits,
                                                       uint32_t first, uint32_t number) {
  const uint32_t local = first + number;
  InputVc& vc = view.inputs[local];
  OutputVc& out = view.outputs[vc.out];
  ChannelStart& channel = view.output_ports[out.output].channel;
  const bool is_tail = --vc.remaining == 0;
  --vc.flits;
  --out.credits;
  ++channel.flits;
  ++reports_.counts.switch_grants;
  const uint32_t ends = (vc.has_head ? kHeadFlit : 0) | (is_tail ? kTailFlit : 0);
  s_.events.flits.add(channel.lane, {channel.target + out.vc, vc.front << 2U | ends});
  s_.events.credits.add(credits.lane, credits.target + number);
  vc.has_head = false;
  if (is_tail || vc.flits == 0 || out.credits == 0) {
    s_.times.ready.leave_if(now_ + 1, true);
    s_.times.starved.enter_if(now_ + 1, !is_tail && vc.flits > 0);
    uint64_t* waiting = ready(view.masks, out.output);
    Mask::clear(waiting, local);
    Mask::clear_if(outputs(view.masks), out.output, !Mask::any(waiting, input_words()));
  }
  if (is_tail) {
    release(view, vc, out);
  }
  if (channel.pace != kNone) {
    hold(channel, view, out.output);
  }
}

// VCs are given away before those are free whose packets pass, and after the switch is.
template <bool kNarrow>
[[gnu::always_inline]] inline void Core<kNarrow>::move(const Matching& matching) {
  const View& view = matching.view;
  allocate_vcs(view);
  Mask::for_each(matching.granted.data(), input_words(), [&](uint32_t input) {
    pass(view, view.input_ports[input].credits, input * s_.layout.vcs, matching.passing[input]);
  });
  Bits<false>::clear_if(s_.masks.active.data(), view.router,
                        !may_pass_any(view.masks) && !may_give_any(view.masks));
}

template <bool kNarrow>
void Core<kNarrow>::start_front(FlitSource& source, uint32_t interface) {
  source.remaining = packets_.header(source.front).length;
  wake_if(interface, true);
}

template <bool kNarrow>
bool Core<kNarrow>::choose_source_vc(FlitSource& source, uint32_t interface) {
  const uint32_t vcs = s_.layout.vcs;
  const uint32_t room =
      std::max(1U, std::min(static_cast<uint32_t>(s_.options.room), source.remaining));
  const uint32_t* credits = &s_.source_credits[interface * vcs];
  for (uint32_t i = 0, vc = source.last_vc; i < vcs; ++i) {
    vc = vc + 1 == vcs ? 0 : vc + 1;
    if (credits[vc] >= room) {
      source.vc = source.last_vc = vc;
      return true;
    }
  }
  return false;
}

template <bool kNarrow>
void Core<kNarrow>::send(uint32_t interface) {
  FlitSource& source = s_.sources[interface];
  ChannelStart& channel = source.channel;
  auto& packet = packets_.header(source.front);
  const bool is_open = channel.pace == kNone || s_.paces[channel.pace].next <= now_;
  const bool may_send = is_open && packet.supplied > 0 &&
                        (source.vc != kNone || choose_source_vc(source, interface)) &&
                        s_.source_credits[interface * s_.layout.vcs + source.vc] > 0;
  if (!may_send) {
    Bits<false>::clear(s_.masks.sending.data(), interface);
    return;
  }
  const uint32_t head = source.remaining == packet.length ? kHeadFlit : 0;
  const uint32_t tail = --source.remaining == 0 ? kTailFlit : 0;
  --s_.source_credits[interface * s_.layout.vcs + source.vc];
  --packet.supplied;
  --source.queued;
  ++channel.flits;
  ++reports_.counts.flits_sent;
  s_.events.flits.add(channel.lane, {channel.target + source.vc, source.front << 2U | head | tail});
  if (channel.pace != kNone) {
    ChannelPace& pace = s_.paces[channel.pace];
    pace.pass(now_);
    if (pace.next > now_ + 1) {
      s_.events.openings.add(pace.next, kAtInterface | interface);
    }
  }
  if (tail != 0) {
    finish_front(source, interface);
  }
}

template <bool kNarrow>
void Core<kNarrow>::finish_front(FlitSource& source, uint32_t interface) {
  source.vc = kNone;
  source.front = packets_.header(source.front).next;
  if (source.front != kNone) {
    start_front(source, interface);
  } else {
    source.back = kNone;
    reports_.drained.push_back(static_cast<int32_t>(interface));
    Bits<false>::clear(s_.masks.sending.data(), interface);
  }
}

// While one router's VCs come from memory, the one before moves.
template <bool kNarrow>
void Core<kNarrow>::visit_routers() {
  const Matching* before = nullptr;
  std::size_t turn = 0;
  for (std::size_t word = 0; word < s_.masks.active.size(); ++word) {
    for (uint64_t bits = s_.masks.active[word]; bits != 0; bits &= bits - 1) {
      Matching& matching = matchings_[turn];
      match(static_cast<uint32_t>(word * 64) + first_of(bits), matching);
      if (before != nullptr) {
        move(*before);
      }
      before = &matching;
      turn ^= 1U;
    }
  }
  if (before != nullptr) {
    move(*before);
  }
}

template <bool kNarrow>
void Core<kNarrow>::end_cycle() {
  reports_.drained.clear();
  visit_routers();
  for (std::size_t word = 0; word < s_.masks.sending.size(); ++word) {
    for (uint64_t bits = s_.masks.sending[word]; bits != 0; bits &= bits - 1) {
      send(static_cast<uint32_t>(word * 64) + first_of(bits));
    }
  }
  s_.events.flits.close();
  s_.events.credits.close();
  s_.events.asks.close();
  s_.events.passes.close();
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
  int64_t next = std::max(now_, streams_.due());
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
  const uint32_t number =
      packets_.add(packet.hops, {.length = static_cast<uint32_t>(packet.length),
                                 .supplied = static_cast<uint32_t>(packet.supplied),
                                 .priority = packet.priority});
  FlitSource& source = s_.sources[at(interface)];
  source.queued += packet.supplied;
  if (source.front == kNone) {
    source.front = source.back = number;
    start_front(source, static_cast<uint32_t>(interface));
  } else {
    packets_.header(source.back).next = number;
    source.back = number;
  }
  return number;
}

template <bool kNarrow>
void Core<kNarrow>::supply(int32_t interface, PacketNumber packet, int32_t flits) {
  packets_.header(packet).supplied += static_cast<uint32_t>(flits);
  FlitSource& source = s_.sources[at(interface)];
  source.queued += flits;
  if (streams_.holds(interface)) {
    streams_.extend(interface);
  } else if (source.front == packet) {
    wake_if(static_cast<uint32_t>(interface), true);
  }
}

template <bool kNarrow>
RouterCounts Core<kNarrow>::counts() const {
  RouterCounts counts = reports_.counts;
  counts.vc_stalls = s_.times.asking.until(now_);
  counts.credit_stalls = s_.times.starved.until(now_);
  counts.switch_stalls = s_.times.ready.until(now_) - counts.switch_grants;
  return counts;
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
