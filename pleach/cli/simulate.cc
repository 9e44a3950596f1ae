// pleach simulate: times a schedule on a topology.
#include <fmt/core.h>

#include <filesystem>

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/log.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

struct SimulateOptions {
  ScheduleOptions schedule;
  std::string file;
  std::string size;
  std::string model = "flow";
  std::string gate = "dataflow";
  std::string flow_control = "packet";
  std::string segments = "1";
  std::string landing_places = "0";
  std::string reduce_bandwidth;
  std::string cycle = "1ns";
  std::string csv;
  bool no_fold = false;
  bool json = false;

  void declare(CommandLine& line);
};

void SimulateOptions::declare(CommandLine& line) {
  line.optional_argument("FILE", file, "schedule file, in place of --algorithm");
  line.required_option("--topology", schedule.topology, "where: torus:4x4, cluster.toml, ...");
  line.required_option("--size", size, "whole buffer of one rank: 64MiB");
  line.option("--algorithm", schedule.algorithm, "ring, multitree, ... or a schedule file");
  schedule.declare_collective(line);
  line.option("--model", model, "analytic or flow (pleach list models)");
  line.option("--gate", gate, "dataflow, or lockstep: steps open one after another");
  line.option("--flow-control", flow_control, "headers per packet, or per message");
  line.option("--segments", segments,
              "parts of each chunk that pipeline; auto tries 1, 2, 4, ... 64");
  line.option("--landing-places", landing_places, "of each connection; 0: as many as needed");
  line.option("--reduce-bandwidth", reduce_bandwidth,
              "of a rank's reductions: 100GB/s; none given: they take no time");
  line.option("--cycle", cycle, "length of a clock cycle");
  line.option("--csv", csv, "folder for links.csv and collectives.csv");
  line.flag("--no-fold", no_fold, "simulate every rank even where symmetry allows one");
  line.flag("--json", json, "print one JSON object");
}

Result<TimingRequest> timing_request(const SimulateOptions& options) {
  TimingRequest request;
  request.model = options.model;
  PLEACH_TRY(from_option("--model", network_models().find(options.model)));
  PLEACH_SET(request.size_bytes, from_option("--size", parse_size_bytes(options.size)));
  request.choose_segments = options.segments == "auto";
  if (!request.choose_segments) {
    PLEACH_ASSIGN(segments, parse_integer(options.segments, "--segments", 1, kMostSegments));
    request.options.segment_count = static_cast<int32_t>(segments);
  }
  PLEACH_ASSIGN(places, parse_integer(options.landing_places, "--landing-places", 0, INT32_MAX));
  request.options.landing_places = static_cast<int32_t>(places);
  const std::vector<std::string> gates = {"dataflow", "lockstep"};
  if (options.gate != gates[0] && options.gate != gates[1]) {
    return unknown_name("--gate", options.gate, gates);
  }
  request.options.gate = options.gate == gates[0] ? Gate::kDataflow : Gate::kLockstep;
  const std::vector<std::string> controls = {"packet", "message"};
  if (options.flow_control != controls[0] && options.flow_control != controls[1]) {
    return unknown_name("--flow-control", options.flow_control, controls);
  }
  request.options.flow_control =
      options.flow_control == controls[0] ? FlowControl::kPacket : FlowControl::kMessage;
  if (!options.reduce_bandwidth.empty()) {
    PLEACH_SET(
        request.options.reduce_bandwidth_bytes_per_s,
        from_option("--reduce-bandwidth", parse_bandwidth_bytes_per_s(options.reduce_bandwidth)));
  }
  PLEACH_ASSIGN(cycle_ps, from_option("--cycle", parse_time_ps(options.cycle)));
  if (cycle_ps < 1) {
    return invalid("--cycle: a cycle takes time");
  }
  request.cycle_ps = cycle_ps;
  request.options.fold = !options.no_fold;
  return request;
}

std::string text_of(const ScheduleSummary& schedule, const Timing& timing) {
  const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
  Facts facts;
  facts.add("schedule", fmt::format("{} {} of {} on {} ranks", schedule.provenance.algorithm,
                                    to_text(schedule.collective), format_size(timing.size_bytes),
                                    schedule.rank_count));
  facts.add("time",
            fmt::format("{} ({} cycles), {} segment{}", format_time(timing.time_ps), timing.cycles,
                        timing.segment_count, timing.segment_count == 1 ? "" : "s"));
  facts.add("algbw", format_bandwidth(timing.algbw_bytes_per_s) +
                         (bound > 0 ? fmt::format(", {:.1f} % of the bound {}",
                                                  timing.algbw_bytes_per_s / bound * 100,
                                                  format_bandwidth(bound))
                                    : ""));
  facts.add("busbw", format_bandwidth(timing.busbw_bytes_per_s));
  if (!timing.links.bottleneck.empty()) {
    facts.add("on the wire", format_size(timing.links.bytes));
    facts.add("links", fmt::format("busy {:.1f} % of the time on average, {} {:.1f} %",
                                   timing.links.utilization_mean * 100, timing.links.bottleneck,
                                   timing.links.bottleneck_utilization * 100));
  }
  facts.add("simulated",
            fmt::format("by {}: {} events{}", timing.model, timing.simulation.event_count,
                        timing.simulation.folded ? ", folded by symmetry" : ""));
  return facts.text();
}

Status write_tables(const std::string& folder, const Topology& topology, const Schedule& schedule,
                    const Timing& timing) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorCode::kIo, fmt::format("--csv: {}: {}", folder, error.message())};
  }
  PLEACH_TRY(write_file(folder + "/links.csv", links_csv(topology, timing)));
  return write_file(folder + "/collectives.csv", collectives_csv(schedule, timing));
}

Result<ExitCode> run_simulate(const Command& command, const Invocation& invocation) {
  SimulateOptions options;
  CommandLine line(command, invocation);
  options.declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (options.file.empty() == options.schedule.algorithm.empty()) {
    fmt::print(invocation.error, "pleach simulate: give either FILE or --algorithm\n");
    return ExitCode::kUsage;
  }
  const Stopwatch watch;
  PLEACH_ASSIGN(timing_options, timing_request(options));
  PLEACH_ASSIGN(topology, topology_option(options.schedule.topology));
  PLEACH_ASSIGN(request,
                options.schedule.request(topology, line, options.schedule.source(options.file)));
  log_step(fmt::format("obtaining a schedule: {}", request.algorithm));
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, request));
  log_step(fmt::format("simulating {} transfers by {}", schedule.transfer_count(), options.model));
  PLEACH_ASSIGN(timing, time_schedule(topology, schedule, timing_options));
  if (!options.csv.empty()) {
    PLEACH_TRY(write_tables(options.csv, topology, schedule, timing));
  }
  PLEACH_ASSIGN(summary, summarize(schedule, topology));
  if (options.json) {
    fmt::print(invocation.out, "{}\n", to_json(summary, timing, watch.elapsed_s()));
  } else {
    fmt::print(invocation.out, "{}", text_of(summary, timing));
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kSimulateCommand = {
    "simulate", "times a schedule on a topology",
    "  pleach simulate --topology torus:8x8 --algorithm multitree --size 64MiB\n"
    "  pleach simulate ring.json --topology mesh:4x4 --size 1GB --segments auto\n"
    "  pleach simulate --topology torus:4x4 --algorithm multitree --size 1MiB --gate lockstep\n"
    "  pleach simulate --topology ring:8 --algorithm ring --size 1MiB --csv tables\n",
    run_simulate};

}  // namespace pleach
