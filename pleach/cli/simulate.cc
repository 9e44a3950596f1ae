// pleach simulate: times a schedule on a topology.
#include <fmt/core.h>

#include "pleach/cli/comparison.h"
#include "pleach/cli/log.h"
#include "pleach/cli/table.h"
#include "pleach/cli/timing_options.h"

namespace pleach {
namespace {

void declare(CommandLine& line) {
  declare_topology(line);
  line.option("--size", "whole buffer of one rank: 64MiB");
  line.option("--sizes", "several, as a table: 1KiB:256MiB:4 (from, to, factor) or a list");
  declare_schedule(line);
  declare_timing(line, "1");
  line.option("--cycle",
              "length of a clock cycle; not given: the model's, or 1ns where it has no clock");
  line.option("--csv", "folder for links.csv and collectives.csv; of a table, comparison.csv");
  line.json_flag();
}

Result<TimingRequest> single_request(const CommandLine& line, const std::string& model) {
  PLEACH_ASSIGN(request, timing_request(line));
  request.model = model;
  PLEACH_SET(request.size_bytes, line.value("--size", parse_size_bytes));
  if (line.given("--cycle")) {
    PLEACH_SET(request.cycle_ps, line.value("--cycle", parse_time_ps));
    PLEACH_TRY(from_option("--cycle", check_cycle(request)));
  }
  return request;
}

// What would change the time much; empty: nothing that shows.
std::string note_of(const ScheduleSummary& schedule, const Timing& timing) {
  constexpr double kNear = 0.98;
  const double of_large = schedule.provenance.certificate.algbw_bytes_per_s;
  if (timing.messages_are_free && timing.segment_count > 1) {
    return "messages are free on this topology; with overhead= or link=, fewer segments may win";
  }
  if (timing.segment_count == 1 && timing.algbw_bytes_per_s < kNear * of_large) {
    return fmt::format("large sizes come to {}; --segments auto, to what is possible here",
                       format_bandwidth(of_large));
  }
  return "";
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
  if (const LinksInUse& links = timing.links; !links.bottleneck.empty()) {
    facts.add("on the wire", format_size(links.bytes));
    facts.add("links", fmt::format("carry {:.1f} % of their bandwidth on average, {} {:.1f} %",
                                   links.utilization_mean * 100, links.bottleneck,
                                   links.bottleneck_utilization * 100));
    facts.add("busy",
              fmt::format("{:.1f} % of the time on average, {} {:.1f} %", links.busy_mean * 100,
                          links.bottleneck, links.bottleneck_busy * 100));
  }
  facts.add("simulated",
            fmt::format("by {}: {} events{}", timing.model, timing.simulation.use.event_count,
                        timing.simulation.use.folded ? ", folded by symmetry" : ""));
  for (const std::string& note : {timing.simulation.use.note, note_of(schedule, timing)}) {
    if (!note.empty()) {
      facts.add("note", note);
    }
  }
  return facts.text();
}

Result<ExitCode> simulate_one(const CommandLine& line, const Invocation& invocation,
                              const std::string& source, const std::string& model) {
  const Stopwatch watch;
  PLEACH_ASSIGN(how, single_request(line, model));
  PLEACH_ASSIGN(topology, line.value("--topology", parse_topology));
  PLEACH_ASSIGN(request, schedule_request(line, topology, source));
  log_step(fmt::format("obtaining a schedule: {}", pleach::quoted(source)));
  request.size_bytes = how.size_bytes;
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, source, request, planner_options(how)));
  log_step(fmt::format("simulating {} transfers by {}", schedule->transfer_count(), how.model));
  PLEACH_ASSIGN(timing, time_schedule(topology, schedule, how));
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"links.csv", links_csv(topology, timing)},
                                {"collectives.csv", collectives_csv(*schedule, timing)}}));
  }
  PLEACH_ASSIGN(summary, summarize(*schedule, topology));
  if (line.json()) {
    fmt::print(invocation.out, "{}\n", to_json(summary, timing, watch.elapsed_s()));
  } else {
    fmt::print(invocation.out, "{}", text_of(summary, timing));
  }
  return ExitCode::kDone;
}

Result<ExitCode> run_simulate(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (const auto stop = check_schedule(line)) {
    return *stop;
  }
  if (line.given("--size") == line.given("--sizes")) {
    return line.refuse("give either --size or --sizes");
  }
  PLEACH_ASSIGN(sources, schedule_sources(line));
  PLEACH_ASSIGN(models, models_option(line));
  if (line.given("--size") && sources.size() == 1 && models.size() == 1) {
    return simulate_one(line, invocation, sources.front(), models.front());
  }
  if (line.given("--cycle")) {
    return line.refuse("--cycle is for one --size, algorithm and model");
  }
  return print_comparison(line, invocation, sources);
}

}  // namespace

extern const Command kSimulateCommand = {
    "simulate", "times a schedule on a topology",
    "  pleach simulate --topology torus:8x8 --algorithm multitree --size 64MiB\n"
    "  pleach simulate ring.json --topology mesh:4x4 --size 1GB --segments auto\n"
    "  pleach simulate --topology torus:4x4 --algorithm multitree --size 1MiB --gate lockstep\n"
    "  pleach simulate --topology ring:8 --algorithm ring --size 1MiB --csv tables\n"
    "  pleach simulate --topology ring:8 --algorithm ring,direct --sizes 1KiB:1GiB:32\n",
    run_simulate};

}  // namespace pleach
