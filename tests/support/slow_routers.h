// SlowRouters: what pleach/network/flit/routers.h describes, written down as it stands there, with
// flits in queues and loops over everything in every cycle. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <tuple>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/flit/routers.h"

namespace pleach::support {

class SlowRouters {
 public:
  struct Delivery {
    int32_t interface = 0;
    int32_t packet = 0;
    bool head = false, tail = false;
    auto operator<=>(const Delivery&) const = default;
  };

  SlowRouters(const Fabric& fabric, const RouterOptions& options)
      : fabric_(fabric),
        options_(options),
        routers_(at(fabric.router_count)),
        sources_(at(fabric.interface_count)),
        due_(fabric.channels.size()) {
    for (int32_t i = 0; i < count_of(fabric.channels); ++i) {
      const FabricChannel& channel = fabric.channels[at(i)];
      if (channel.source.router >= 0) {
        Router& router = routers_[at(channel.source.router)];
        router.outputs.resize(std::max(router.outputs.size(), at(channel.source.port) + 1));
        router.outputs[at(channel.source.port)].channel = i;
      } else {
        sources_[at(channel.source.port)].channel = i;
      }
      if (channel.target.router >= 0) {
        Router& router = routers_[at(channel.target.router)];
        router.inputs.resize(std::max(router.inputs.size(), at(channel.target.port) + 1));
        router.inputs[at(channel.target.port)].channel = i;
      }
    }
    for (Router& router : routers_) {
      for (Output& output : router.outputs) {
        output.vcs.resize(at(options.vcs));
        for (OutVc& vc : output.vcs) {
          vc.credits = options.buffer;
        }
      }
      for (Input& input : router.inputs) {
        input.vcs.resize(at(options.vcs));
      }
    }
    for (Source& source : sources_) {
      source.credits.assign(at(options.vcs), options.buffer);
      source.last_vc = options.vcs - 1;
    }
  }

  // Packets are numbered from 0.
  int32_t offer(int32_t interface, const Routers::Packet& packet) {
    packets_.push_back({{packet.hops.begin(), packet.hops.end()},
                        packet.length,
                        packet.supplied,
                        packet.priority});
    sources_[at(interface)].queue.push_back(count_of(packets_) - 1);
    return count_of(packets_) - 1;
  }
  void supply(int32_t packet, int32_t flits) { packets_[at(packet)].supplied += flits; }
  // Flits supplied and not yet sent.
  int64_t queued_flits(int32_t interface) const {
    const Source& source = sources_[at(interface)];
    int64_t flits = -source.sent;
    for (const int32_t packet : source.queue) {
      flits += packets_[at(packet)].supplied;
    }
    return flits;
  }

  // One cycle; what interfaces took in it, sorted. `offers` is called after they have.
  template <typename Offers>
  std::vector<Delivery> cycle(Offers offers) {
    std::vector<Delivery> delivered;
    arrive(delivered);
    offers();
    for (Router& router : routers_) {
      const auto vc_grants = allocate_vcs(router);
      const auto switch_grants = allocate_switch(router);
      count(router, count_of(vc_grants), count_of(switch_grants));
      for (const auto& [input, vc, output, out_vc] : vc_grants) {
        Vc& waiting = router.inputs[at(input)].vcs[at(vc)];
        waiting.state = Vc::kActive;
        waiting.pass_from = now_ + options_.vc_delay;
        waiting.output = output;
        waiting.out_vc = out_vc;
        router.outputs[at(output)].vcs[at(out_vc)].is_owned = true;
      }
      for (const auto& [input, vc] : switch_grants) {
        pass(router, input, vc);
      }
    }
    for (Source& source : sources_) {
      send(source);
    }
    ++now_;
    counts_.flits_delivered += count_of(delivered);
    std::ranges::sort(delivered);
    return delivered;
  }
  const RouterCounts& counts() const { return counts_; }

 private:
  struct Flit {
    int32_t packet = 0;
    bool head = false, tail = false;
  };
  struct Vc {
    enum State : uint8_t { kIdle, kWaiting, kActive } state = kIdle;
    std::deque<Flit> flits;
    int64_t ask_from = 0, pass_from = 0;
    int32_t output = 0, out_vc = 0;
    int32_t accept = 0;
  };
  struct Input {
    int32_t channel = -1;
    std::vector<Vc> vcs;
    int32_t accept = 0, next_vc = 0;
  };
  struct OutVc {
    int32_t credits = 0;
    bool is_owned = false;
    int32_t grant = 0;
  };
  struct Output {
    int32_t channel = -1;
    std::vector<OutVc> vcs;
    int32_t grant = 0;
  };
  struct Router {
    std::vector<Input> inputs;
    std::vector<Output> outputs;
  };
  struct Source {
    int32_t channel = -1;
    std::deque<int32_t> queue;
    std::vector<int32_t> credits;
    int32_t sent = 0, vc = -1, last_vc = 0;
  };
  struct Packet {
    std::vector<uint16_t> hops;
    int32_t length = 0, supplied = 0, priority = 0;
    std::size_t hop = 0;
  };
  struct FlitOnTheWay {
    int64_t cycle = 0;
    int32_t channel = 0, vc = 0;
    Flit flit;
  };
  struct CreditOnTheWay {
    int64_t cycle = 0;
    int32_t channel = 0, vc = 0;
  };

  void arrive(std::vector<Delivery>& delivered) {
    for (std::size_t i = 0; i < flits_.size(); ++i) {
      if (flits_[i].cycle != now_) {
        continue;
      }
      const auto [cycle, number, vc, flit] = flits_[i];
      const FabricChannel& channel = fabric_.channels[at(number)];
      if (channel.target.router < 0) {
        delivered.push_back({channel.target.port, flit.packet, flit.head, flit.tail});
        give_credit(number, vc);
        continue;
      }
      Vc& there = routers_[at(channel.target.router)].inputs[at(channel.target.port)].vcs[at(vc)];
      there.flits.push_back(flit);
      ++counts_.buffer_writes;
      counts_.deepest_buffer = std::max<int64_t>(counts_.deepest_buffer, count_of(there.flits));
      if (there.state == Vc::kIdle) {
        there.state = Vc::kWaiting;
        there.ask_from = now_ + options_.routing_delay;
      }
    }
    std::erase_if(flits_, [&](const FlitOnTheWay& flit) { return flit.cycle == now_; });
    for (const CreditOnTheWay& credit : credits_) {
      if (credit.cycle == now_) {
        const FabricEnd source = fabric_.channels[at(credit.channel)].source;
        ++(source.router < 0
               ? sources_[at(source.port)].credits[at(credit.vc)]
               : routers_[at(source.router)].outputs[at(source.port)].vcs[at(credit.vc)].credits);
      }
    }
    std::erase_if(credits_, [&](const CreditOnTheWay& credit) { return credit.cycle == now_; });
  }

  void give_credit(int32_t number, int32_t vc) {
    const FabricChannel& channel = fabric_.channels[at(number)];
    const int32_t delay = channel.source.router < 0 ? 0 : options_.credit_delay;
    credits_.push_back({now_ + 1 + channel.latency_cycles + delay, number, vc});
  }

  // Whether a head in the VC asks for the output's VC and may have it.
  bool asks_for(const Router& router, const Vc& vc, int32_t output, int32_t out_vc) const {
    if (vc.state != Vc::kWaiting || now_ < vc.ask_from) {
      return false;
    }
    const Packet& packet = packets_[at(vc.flits.front().packet)];
    const int32_t hop = packet.hops[packet.hop];
    const Output& out = router.outputs[at(output)];
    const bool is_ejection = fabric_.channels[at(out.channel)].target.router < 0;
    return hop / options_.classes == output &&
           (is_ejection || out_vc * options_.classes / options_.vcs == hop % options_.classes) &&
           !out.vcs[at(out_vc)].is_owned &&
           out.vcs[at(out_vc)].credits >= std::min(options_.room, packet.length);
  }

  // (input, VC, output, VC)
  using VcGrant = std::tuple<int32_t, int32_t, int32_t, int32_t>;
  std::vector<VcGrant> allocate_vcs(Router& router) {
    const int32_t vcs = options_.vcs;
    const int32_t inputs = count_of(router.inputs) * vcs, outputs = count_of(router.outputs) * vcs;
    std::vector<int32_t> input_match(at(inputs), -1), output_match(at(outputs), -1);
    for (int32_t iteration = 0; iteration < options_.iterations; ++iteration) {
      std::vector<int32_t> chosen(at(outputs), -1);
      for (int32_t out = 0; out < outputs; ++out) {
        for (int32_t i = 0; i < inputs && output_match[at(out)] < 0 && chosen[at(out)] < 0; ++i) {
          const int32_t in = (router.outputs[at(out / vcs)].vcs[at(out % vcs)].grant + i) % inputs;
          if (input_match[at(in)] < 0 &&
              asks_for(router, router.inputs[at(in / vcs)].vcs[at(in % vcs)], out / vcs,
                       out % vcs)) {
            chosen[at(out)] = in;
          }
        }
      }
      for (int32_t in = 0; in < inputs; ++in) {
        Vc& vc = router.inputs[at(in / vcs)].vcs[at(in % vcs)];
        for (int32_t i = 0; i < outputs && input_match[at(in)] < 0; ++i) {
          const int32_t out = (vc.accept + i) % outputs;
          if (chosen[at(out)] == in) {
            input_match[at(in)] = out;
            output_match[at(out)] = in;
          }
        }
        if (iteration == 0 && input_match[at(in)] >= 0) {
          const int32_t out = input_match[at(in)];
          router.outputs[at(out / vcs)].vcs[at(out % vcs)].grant = (in + 1) % inputs;
          vc.accept = (out + 1) % outputs;
        }
      }
    }
    std::vector<VcGrant> grants;
    for (int32_t in = 0; in < inputs; ++in) {
      if (const int32_t out = input_match[at(in)]; out >= 0) {
        grants.emplace_back(in / vcs, in % vcs, out / vcs, out % vcs);
      }
    }
    return grants;
  }

  // Who asks, or tries, and gets nothing.
  void count(const Router& router, int32_t vc_grants, int32_t switch_grants) {
    counts_.vc_grants += vc_grants;
    counts_.vc_stalls -= vc_grants;
    counts_.switch_grants += switch_grants;
    counts_.switch_stalls -= switch_grants;
    for (const Input& input : router.inputs) {
      for (const Vc& vc : input.vcs) {
        if (vc.state == Vc::kWaiting && now_ >= vc.ask_from) {
          ++counts_.vc_stalls;
        } else if (vc.state == Vc::kActive && now_ >= vc.pass_from && !vc.flits.empty()) {
          const bool can = router.outputs[at(vc.output)].vcs[at(vc.out_vc)].credits > 0;
          ++(can ? counts_.switch_stalls : counts_.credit_stalls);
        }
      }
    }
  }

  bool can_pass(const Router& router, const Vc& vc, int32_t output) const {
    if (vc.state != Vc::kActive || vc.output != output || now_ < vc.pass_from || vc.flits.empty()) {
      return false;
    }
    const Output& out = router.outputs[at(output)];
    return out.vcs[at(vc.out_vc)].credits > 0 && is_open(out.channel);
  }

  std::vector<std::pair<int32_t, int32_t>> allocate_switch(Router& router) {
    const int32_t inputs = count_of(router.inputs), outputs = count_of(router.outputs);
    std::vector<int32_t> input_match(at(inputs), -1), output_match(at(outputs), -1);
    const auto wants = [&](int32_t in, int32_t out) {
      return std::ranges::any_of(router.inputs[at(in)].vcs,
                                 [&](const Vc& vc) { return can_pass(router, vc, out); });
    };
    for (int32_t iteration = 0; iteration < options_.iterations; ++iteration) {
      std::vector<int32_t> chosen(at(outputs), -1);
      for (int32_t out = 0; out < outputs; ++out) {
        for (int32_t i = 0; i < inputs && output_match[at(out)] < 0 && chosen[at(out)] < 0; ++i) {
          const int32_t in = (router.outputs[at(out)].grant + i) % inputs;
          if (input_match[at(in)] < 0 && wants(in, out)) {
            chosen[at(out)] = in;
          }
        }
      }
      for (int32_t in = 0; in < inputs; ++in) {
        Input& input = router.inputs[at(in)];
        for (int32_t i = 0; i < outputs && input_match[at(in)] < 0; ++i) {
          const int32_t out = (input.accept + i) % outputs;
          if (chosen[at(out)] == in) {
            input_match[at(in)] = out;
            output_match[at(out)] = in;
            if (iteration == 0) {
              router.outputs[at(out)].grant = (in + 1) % inputs;
              input.accept = (out + 1) % outputs;
              break;
            }
          }
        }
      }
    }
    std::vector<std::pair<int32_t, int32_t>> grants;
    for (int32_t in = 0; in < inputs; ++in) {
      if (input_match[at(in)] >= 0) {
        grants.emplace_back(in, choose_vc(router, in, input_match[at(in)]));
      }
    }
    return grants;
  }

  int32_t choose_vc(Router& router, int32_t in, int32_t out) {
    Input& input = router.inputs[at(in)];
    int32_t best = -1, least = INT32_MAX;
    for (int32_t i = 0; i < options_.vcs; ++i) {
      const int32_t vc = (input.next_vc + i) % options_.vcs;
      if (can_pass(router, input.vcs[at(vc)], out)) {
        const int32_t priority = options_.by_priority
                                     ? packets_[at(input.vcs[at(vc)].flits.front().packet)].priority
                                     : 0;
        if (best < 0 || priority < least) {
          best = vc;
          least = priority;
        }
      }
    }
    input.next_vc = (best + 1) % options_.vcs;
    return best;
  }

  void pass(Router& router, int32_t in, int32_t number) {
    Vc& vc = router.inputs[at(in)].vcs[at(number)];
    Output& output = router.outputs[at(vc.output)];
    OutVc& out = output.vcs[at(vc.out_vc)];
    const Flit flit = vc.flits.front();
    vc.flits.pop_front();
    --out.credits;
    const FabricChannel& channel = fabric_.channels[at(output.channel)];
    const int64_t latency = int64_t{channel.passing_cycles} + channel.latency_cycles;
    flits_.push_back({now_ + 1 + options_.switch_delay + latency, output.channel, vc.out_vc, flit});
    note_passed(output.channel);
    give_credit(router.inputs[at(in)].channel, number);
    if (flit.head) {
      ++packets_[at(flit.packet)].hop;
    }
    if (flit.tail) {
      out.is_owned = false;
      vc.state = vc.flits.empty() ? Vc::kIdle : Vc::kWaiting;
      vc.ask_from = now_ + 1 + options_.routing_delay;
    }
  }

  void send(Source& source) {
    if (source.queue.empty() || !is_open(source.channel)) {
      return;
    }
    const int32_t number = source.queue.front();
    const Packet& packet = packets_[at(number)];
    if (source.sent == packet.supplied) {
      return;
    }
    for (int32_t i = 1; i <= options_.vcs && source.vc < 0; ++i) {
      const int32_t vc = (source.last_vc + i) % options_.vcs;
      if (source.credits[at(vc)] >= std::max(1, std::min(options_.room, packet.length))) {
        source.vc = source.last_vc = vc;
      }
    }
    if (source.vc < 0 || source.credits[at(source.vc)] == 0) {
      return;
    }
    --source.credits[at(source.vc)];
    const Flit flit{number, source.sent == 0, source.sent + 1 == packet.length};
    ++source.sent;
    ++counts_.flits_sent;
    flits_.push_back({now_ + 1 + fabric_.channels[at(source.channel)].latency_cycles,
                      source.channel, source.vc, flit});
    note_passed(source.channel);
    if (flit.tail) {
      source.queue.pop_front();
      source.sent = 0;
      source.vc = -1;
    }
  }

  // Channels pass flits at the multiples of cycles / flits, the first one when it comes.
  bool is_open(int32_t channel) const {
    return now_ * fabric_.channels[at(channel)].rate.flits >= due_[at(channel)];
  }
  void note_passed(int32_t channel) {
    const FlitRate rate = fabric_.channels[at(channel)].rate;
    int64_t& due = due_[at(channel)];
    due = std::max(due, (now_ - 1) * rate.flits + 1) + rate.cycles;
  }

  const Fabric fabric_;
  const RouterOptions options_;
  std::vector<Router> routers_;
  std::vector<Source> sources_;
  std::vector<int64_t> due_;  // of the next flit, in cycles / rate.flits, by channel
  std::vector<Packet> packets_;
  std::vector<FlitOnTheWay> flits_;
  std::vector<CreditOnTheWay> credits_;
  RouterCounts counts_;
  int64_t now_ = 0;
};

}  // namespace pleach::support
