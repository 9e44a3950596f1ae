// pleach traffic: synthetic traffic through routers.
#include "pleach/api/traffic.h"

#include <fmt/core.h>

#include <charconv>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/network/flit/credit_loop.h"
#include "pleach/network/flit/patterns.h"

namespace pleach {
namespace {

constexpr int64_t kMostCycles = int64_t{1} << 44;

Result<double> parse_rate(const std::string& text) {
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc() || end != text.data() + text.size() || !(rate > 0 && rate <= 1)) {
    return invalid(fmt::format("rate {} is outside (0, 1]", pleach::quoted(text)));
  }
  return rate;
}

void declare(CommandLine& line) {
  declare_topology(line);
  line.option("--model", "flit, with options of its routers: flit,vcs=8,buffer=16", "flit");
  line.option("--pattern", join(traffic_patterns().names(), ", "), "uniform");
  line.required_option("--rate", "flits offered per rank and cycle, in (0, 1]");
  line.option("--packet", "flits of a packet", "1");
  line.option("--cycles", "that are measured", "30000");
  line.option("--warmup", "cycles before them", "10000");
  line.option("--seed", "of what is drawn", "1");
  line.option("--csv", "folder for latencies.csv, the histogram");
  line.json_flag();
}

Result<TrafficOptions> options_of(const CommandLine& line) {
  TrafficOptions options;
  PLEACH_SET(options, line.value("--model", [](const std::string& model) {
    return traffic_options(model, {});
  }));
  options.pattern = line.text("--pattern");
  PLEACH_TRY(from_option("--pattern", traffic_patterns().find(options.pattern)));
  PLEACH_SET(options.rate, line.value("--rate", parse_rate));
  PLEACH_SET(options.packet_flits, line.count("--packet", 1, INT16_MAX));
  PLEACH_SET(options.cycles, parse_integer(line.text("--cycles"), "--cycles", 1, kMostCycles));
  PLEACH_SET(options.warmup_cycles,
             parse_integer(line.text("--warmup"), "--warmup", 0, kMostCycles));
  PLEACH_SET(options.seed, seed_option(line));
  return options;
}

std::string text_of(const RouterTraffic& traffic) {
  const TrafficResult& result = traffic.result;
  Facts facts;
  facts.add("traffic", fmt::format("{} on {}, {} flit{} of each rank and cycle offered",
                                   traffic.options.pattern, traffic.topology, traffic.options.rate,
                                   traffic.options.rate == 1 ? "" : "s"));
  facts.add("accepted", fmt::format("{:.4f} flits of each rank and cycle", result.accepted));
  if (result.packets == 0) {
    facts.add("latency", "no packet arrived in the measured cycles");
  } else {
    facts.add("latency", fmt::format("{:.1f} cycles on average, 99 % within {}",
                                     result.mean_latency_cycles, result.p99_latency_cycles));
    facts.add("hops", fmt::format("{:.2f} on average", result.mean_hops));
  }
  facts.add("simulated", fmt::format("{} cycles, {} flits; {:.0f} cycles per second of processor",
                                     result.cycles, result.flits, traffic.cycles_per_cpu_s()));
  const std::string note =
      credit_note(traffic.options.routers.buffer, result.credit_round_trip_cycles);
  if (!note.empty()) {
    facts.add("note", note);
  }
  return facts.text();
}

Result<ExitCode> run_traffic_command(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  PLEACH_ASSIGN(options, options_of(line));
  PLEACH_ASSIGN(topology, line.value("--topology", load_topology));
  const std::string& model = line.text("--model");
  log_step(fmt::format("simulating {} cycles of traffic", options.warmup_cycles + options.cycles));
  PLEACH_ASSIGN(traffic, simulate_traffic(topology, model, options, log_runs("cycles")));
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"latencies.csv", latencies_csv(traffic)}}));
  }
  print_text(invocation.out, line.json() ? to_json(traffic) + "\n" : text_of(traffic));
  return ExitCode::kDone;
}

}  // namespace

extern const Command kTrafficCommand = {
    "traffic", "sends synthetic traffic through routers, cycle by cycle",
    "  pleach traffic --topology torus:8x8,latency=2ns --rate 0.3\n"
    "  pleach traffic --topology torus:8x8,latency=2ns --model flit,vcs=8 --rate 0.9 --json\n"
    "  pleach traffic --topology mesh:8x8,latency=1ns --pattern transpose --rate 0.1 --csv "
    "tables\n",
    run_traffic_command};

}  // namespace pleach
