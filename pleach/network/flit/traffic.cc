#include "pleach/network/flit/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/network/flit/credit_loop.h"
#include "pleach/network/flit/deadlock.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/patterns.h"
#include "pleach/network/flit/traffic_routes.h"
#include "pleach/topology/link_name.h"

namespace pleach {
namespace {

constexpr int64_t kMostFlitHops = int64_t{1} << 44;
constexpr int64_t kProgressCycles = 1 << 14;
constexpr int64_t kDeadlockCycles = 1 << 12;

// Draws how many cycles pass until the next one in which something of probability p happens, ≥ 1:
// one draw, and a search among the powers of 1 - p, so that it is the same on every machine.
class GapDraw {
 public:
  //   horizon  a gap of that many cycles or more counts as no event: the search ends there, also
  //            where p is so small that 1 - p is 1
  GapDraw(double probability, int64_t horizon) : horizon_(horizon) {
    double none = 1.0;
    do {
      none *= 1.0 - probability;
      none_in_.push_back(none);
    } while (none > 0.5 && none_in_.size() < kMost);
  }

  int64_t next(Rng& rng) const {
    int64_t before = 0;
    while (before < horizon_) {
      const double draw = rng.unit();
      if (draw >= none_in_.back()) {
        const auto hit =
            std::ranges::partition_point(none_in_, [&](double none) { return none > draw; });
        return before + 1 + (hit - none_in_.begin());
      }
      before += static_cast<int64_t>(none_in_.size());
    }
    return before + 1;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  int64_t horizon_;
  std::vector<double> none_in_;  // the probability of nothing in the first i + 1 cycles
};

struct LivePacket {
  int64_t created = 0;
  int32_t hops = 0;
};

class TrafficRun {
 public:
  // Each rank has one interface, which has its number.
  TrafficRun(const TrafficOptions& options, std::unique_ptr<Routers> routers, TrafficRoutes routes,
             std::vector<int32_t> targets, int32_t ranks)
      : options_(options),
        network_{std::move(routers), std::move(routes), std::move(targets), ranks},
        gap_(options.rate / options.packet_flits, options.warmup_cycles + options.cycles),
        rng_(options.seed) {}

  // Simulates until `cycle`.
  void advance(int64_t cycle);
  // On `link_count` links.
  TrafficResult result(std::size_t link_count) const;
  const Routers& routers() const { return *network_.routers; }

 private:
  using Creation = std::pair<int64_t, int32_t>;  // cycle, rank

  struct Network {
    std::unique_ptr<Routers> routers;
    TrafficRoutes routes;
    std::vector<int32_t> targets;  // by rank; empty: drawn
    int32_t ranks = 0;
  };
  struct Sources {
    std::vector<int64_t> next;  // by rank: when it creates the packet after those sent
    std::priority_queue<Creation, std::vector<Creation>, std::greater<>> idle;
  };
  struct Measured {
    int64_t flits = 0;
    int64_t packets = 0;
    int64_t hops = 0;
    std::vector<int64_t> latencies;
  };

  void begin();
  void create(int32_t rank);
  void look_after(int32_t rank);
  void take_deliveries();

  const TrafficOptions options_;
  Network network_;
  GapDraw gap_;
  Rng rng_;
  Sources sources_;
  std::vector<LivePacket> live_;  // by number
  Measured measured_;
};

// Puts the rank's next packet, whose time has come, in its queue.
void TrafficRun::create(int32_t rank) {
  const auto ranks = static_cast<uint64_t>(network_.ranks);
  const int32_t target = network_.targets.empty() ? static_cast<int32_t>(rng_.below(ranks))
                                                  : network_.targets[at(rank)];
  const auto hops = network_.routes.between(rank, target, rng_);
  const PacketNumber packet = network_.routers->offer(
      rank, {.hops = hops, .length = options_.packet_flits, .supplied = options_.packet_flits});
  if (packet >= live_.size()) {
    live_.resize(std::max<std::size_t>(64, std::size_t{2} * packet));
  }
  int64_t& next = sources_.next[at(rank)];
  live_[packet] = {next, static_cast<int32_t>(hops.size()) - 1};
  next += gap_.next(rng_);
}

// Its queue is empty: no packet is in it that will be sent later, however many have been created.
void TrafficRun::look_after(int32_t rank) {
  if (sources_.next[at(rank)] <= network_.routers->now()) {
    create(rank);
  } else {
    sources_.idle.emplace(sources_.next[at(rank)], rank);
  }
}

void TrafficRun::take_deliveries() {
  const int64_t now = network_.routers->now();
  if (now < options_.warmup_cycles) {
    return;
  }
  for (const FlitDelivery& flit : network_.routers->delivered()) {
    ++measured_.flits;
    if (flit.tail) {
      const LivePacket& packet = live_[flit.packet];
      const auto latency = at(now - packet.created);
      if (latency >= measured_.latencies.size()) {
        measured_.latencies.resize(latency + 1 + latency / 2);
      }
      ++measured_.latencies[latency];
      ++measured_.packets;
      measured_.hops += packet.hops;
    }
  }
}

void TrafficRun::begin() {
  sources_.next.resize(at(network_.ranks));
  for (int32_t rank = 0; rank < count_of(sources_.next); ++rank) {
    sources_.next[at(rank)] = gap_.next(rng_) - 1;
    sources_.idle.emplace(sources_.next[at(rank)], rank);
  }
}

void TrafficRun::advance(int64_t cycle) {
  if (sources_.next.empty()) {
    begin();
  }
  Routers& routers = *network_.routers;
  while (true) {
    check_interruption();
    int64_t next = routers.drained().empty() ? routers.next_cycle().value_or(cycle) : routers.now();
    if (!sources_.idle.empty()) {
      next = std::min(next, sources_.idle.top().first);
    }
    next = std::max(next, routers.now());
    if (next >= cycle) {
      routers.skip_to(cycle);
      return;
    }
    routers.skip_to(next);
    routers.begin_cycle();
    take_deliveries();
    for (const int32_t rank : routers.drained()) {
      look_after(rank);
    }
    while (!sources_.idle.empty() && sources_.idle.top().first <= next) {
      const int32_t rank = sources_.idle.top().second;
      sources_.idle.pop();
      create(rank);
    }
    routers.end_cycle();
  }
}

TrafficResult TrafficRun::result(std::size_t link_count) const {
  TrafficResult result;
  const auto ranks = static_cast<double>(network_.ranks);
  result.cycles = network_.routers->now();
  const RouterCounts counts = network_.routers->counts();
  result.flits = counts.flits_delivered;
  const std::vector<int64_t> flits = network_.routers->channel_flits();
  const int64_t link_flits = std::accumulate(
      flits.begin(), flits.begin() + static_cast<std::ptrdiff_t>(link_count), int64_t{0});
  result.counters = flit_counters(counts, link_flits, 0);
  if (!options_.energies.empty()) {
    result.energy_j = energy_of(options_.energies, result.counters);
  }
  result.accepted =
      static_cast<double>(measured_.flits) / (ranks * static_cast<double>(options_.cycles));
  result.packets = measured_.packets;
  result.latencies = measured_.latencies;
  while (!result.latencies.empty() && result.latencies.back() == 0) {
    result.latencies.pop_back();
  }
  double sum = 0;
  int64_t seen = 0;
  for (std::size_t latency = 0; latency < result.latencies.size(); ++latency) {
    const int64_t count = result.latencies[latency];
    sum += static_cast<double>(count) * static_cast<double>(latency);
    if (100 * seen < 99 * measured_.packets && 100 * (seen + count) >= 99 * measured_.packets) {
      result.p99_latency_cycles = static_cast<int64_t>(latency);
    }
    seen += count;
  }
  if (measured_.packets > 0) {
    result.mean_latency_cycles = sum / static_cast<double>(measured_.packets);
    result.mean_hops = static_cast<double>(measured_.hops) / static_cast<double>(measured_.packets);
  }
  return result;
}

Status check_traffic(const TrafficOptions& options) {
  if (!(options.rate > 0 && options.rate <= 1)) {
    return invalid(fmt::format("rate '{}' is outside (0, 1]", options.rate));
  }
  if (options.packet_flits < 1 || options.cycles < 1 || options.warmup_cycles < 0) {
    return invalid("a packet has a flit, and a run a cycle, at least");
  }
  if (options.routers.buffer < options.packet_flits && options.needs_room) {
    return invalid(
        fmt::format("buffer '{}' is smaller than a packet of {} flits, which would never "
                    "get a VC",
                    options.routers.buffer, options.packet_flits));
  }
  return ok();
}

// Of routes drawn as they will be.
double mean_hops_of(TrafficRoutes& routes, const std::vector<int32_t>& targets, int32_t ranks) {
  constexpr int32_t kDraws = 1000;
  Rng rng(1);
  int64_t hops = 0;
  for (int32_t i = 0; i < kDraws; ++i) {
    const auto source = static_cast<int32_t>(rng.below(static_cast<uint64_t>(ranks)));
    const int32_t target = targets.empty()
                               ? static_cast<int32_t>(rng.below(static_cast<uint64_t>(ranks)))
                               : targets[at(source)];
    hops += static_cast<int64_t>(routes.between(source, target, rng).size());
  }
  return static_cast<double>(hops) / kDraws;
}

Status check_length(const TrafficOptions& options, double mean_hops, int32_t ranks) {
  const double flit_hops = mean_hops * ranks * options.rate *
                           static_cast<double>(options.cycles + options.warmup_cycles);
  if (flit_hops > static_cast<double>(kMostFlitHops)) {
    return invalid(
        fmt::format("the run would take about {:.2g} flits times hops; at most 2^44, "
                    "1.8e13, are simulated",
                    flit_hops));
  }
  return ok();
}

}  // namespace

Result<TrafficResult> run_traffic(const Topology& topology, const TrafficOptions& options,
                                  const RunProgress& progress) {
  PLEACH_TRY(check_traffic(options));
  PLEACH_ASSIGN(pattern, traffic_patterns().find(options.pattern));
  PLEACH_ASSIGN(targets, pattern->targets(topology));
  PLEACH_ASSIGN(fabric, fabric_of(topology, {.flit_bytes = options.flit_bytes}));
  PLEACH_ASSIGN(routes, TrafficRoutes::create(topology, fabric,
                                              {.vcs = options.routers.vcs,
                                               .datelines = options.datelines,
                                               .draw_ties = options.draw_ties,
                                               .allow_deadlock = options.allow_deadlock}));
  RouterOptions how = options.routers;
  how.classes = routes.classes();
  how.room = options.needs_room ? options.packet_flits : 0;
  how.shortest_packet = options.packet_flits;
  PLEACH_ASSIGN(routers, Routers::create(fabric.fabric, how));
  const int32_t ranks = count_of(topology.rank_nodes());
  PLEACH_TRY(check_length(options, mean_hops_of(routes, targets, ranks), ranks));
  const bool may_deadlock = options.allow_deadlock || !options.datelines;
  TrafficRun run(options, std::move(routers), std::move(routes), std::move(targets), ranks);
  const int64_t end = options.warmup_cycles + options.cycles;
  const int64_t stride = may_deadlock ? kDeadlockCycles : kProgressCycles;
  for (int64_t done = 0; done < end;) {
    done = std::min(end, done + stride);
    run.advance(done);
    if (may_deadlock) {
      if (auto error = deadlock_of(topology, fabric.fabric, run.routers())) {
        return std::move(*error);
      }
    }
    if (progress) {
      progress(done, end);
    }
  }
  const std::string wrong = run.routers().inconsistency();
  PLEACH_CHECK(wrong.empty(), wrong.c_str());
  TrafficResult result = run.result(topology.links().size());
  result.credit_round_trip_cycles =
      credit_round_trip_cycles(fabric.fabric, how, options.packet_flits == 1);
  return result;
}

std::vector<OptionDescriptor> traffic_model_options() {
  using Kind = OptionDescriptor::Kind;
  return {
      {"vcs", Kind::kInteger, "4", "virtual channels of a channel", {}, 1, 64},
      {"buffer", Kind::kInteger, "8", "flits that a VC holds", {}, 1, INT16_MAX},
      {"flit", Kind::kSize, "16B", "bytes of a flit: with the fastest link, the cycle"},
      {"routing_delay", Kind::kInteger, "1", "cycles", {}, 0, 1024},
      {"vc_delay", Kind::kInteger, "1", "cycles of VC allocation", {}, 1, 1024},
      {"switch_delay", Kind::kInteger, "1", "cycles of switch allocation", {}, 1, 1024},
      {"credit_delay", Kind::kInteger, "0", "cycles until a credit counts", {}, 0, 1024},
      {"iterations", Kind::kInteger, "1", "of the allocators", {}, 1, 64},
      {"room", Kind::kChoice, "packet", "that a head waits for", {"packet", "none"}},
      {"ties", Kind::kChoice, "draw", "which way half round an even ring", {"draw", "fixed"}},
      {"datelines", Kind::kChoice, "on", "classes of VCs on rings", {"on", "off"}},
      {"deadlock", Kind::kChoice, "refuse", "where VCs do not suffice", {"refuse", "allow"}},
      {"energy", Kind::kText, "", "TOML file of picojoules per event: adds energy_j"},
  };
}

Status set_traffic_options(const Options& model, TrafficOptions& options) {
  const auto integer = [&](const char* name) { return static_cast<int32_t>(model.integer(name)); };
  RouterOptions& routers = options.routers;
  routers.vcs = integer("vcs");
  routers.buffer = integer("buffer");
  routers.routing_delay = integer("routing_delay");
  routers.vc_delay = integer("vc_delay");
  routers.switch_delay = integer("switch_delay");
  routers.credit_delay = integer("credit_delay");
  routers.iterations = integer("iterations");
  options.flit_bytes = model.number("flit");
  options.needs_room = model.text("room") == "packet";
  options.draw_ties = model.text("ties") == "draw";
  options.datelines = model.text("datelines") == "on";
  options.allow_deadlock = model.text("deadlock") == "allow";
  if (!model.text("energy").empty()) {
    PLEACH_SET(options.energies, read_event_energies(model.text("energy")));
  }
  return ok();
}

}  // namespace pleach
